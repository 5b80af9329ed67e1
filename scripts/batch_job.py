"""Submit, query and cancel jobs of a batch system: LSF, PBS, Grid Engine or Slurm.

Snakemake's generic executor calls it (workflow/profiles/generic). `submit` prints the name of the
job for `state` and `cancel`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from vrtspike.cluster.batch_systems import (
    BATCH_SYSTEMS,
    JOBS_FOLDER,
    BatchJob,
    cancel_jobs,
    job_state,
    submit_job,
)
from vrtspike.system.errors import EXIT_USER_ERROR
from vrtspike.system.program import run_main

_DEFAULT = "none"
"""Value in profiles for the batch system's default."""


def main() -> int:
    """Parse the arguments and call the batch system."""
    arguments = _parser().parse_args()
    if arguments.command == "submit":
        return _submit(arguments)
    if arguments.command == "state":
        print(job_state(arguments.job))
        return 0
    fault = cancel_jobs(arguments.jobs)
    if fault:
        print(fault, file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    """Build the parser of the commands and their arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    job = commands.add_parser("submit", help="submit a script; prints the job")
    job.add_argument("system", choices=BATCH_SYSTEMS, help="the batch system")
    job.add_argument("--name", required=True, help="of the job")
    job.add_argument("--cores", type=int, required=True, help="on one machine")
    job.add_argument("--mem-mb", type=int, required=True, help="memory of all cores together")
    job.add_argument("--minutes", type=int, required=True, help="wall time")
    job.add_argument("--gpus", type=int, default=0, help="on that machine")
    job.add_argument("--queue", default=_DEFAULT, help="none: the default queue")
    job.add_argument("--account", default=_DEFAULT, help="none: the default account or project")
    job.add_argument(
        "--extra", default="", help="further options of the batch system's command, as one word"
    )
    job.add_argument("script", type=Path, help="to run")
    query = commands.add_parser("state", help="print running, success or failed")
    query.add_argument("job", help="what submit printed")
    end = commands.add_parser("cancel", help="cancel jobs")
    end.add_argument("jobs", nargs="+", help="what submit printed")
    return parser


def _submit(arguments: argparse.Namespace) -> int:
    """Submit a job, print its name and return the exit status."""
    job = BatchJob(
        name=arguments.name,
        script=arguments.script,
        logs=JOBS_FOLDER.absolute() / "logs",
        cores=arguments.cores,
        mem_mb=arguments.mem_mb,
        minutes=arguments.minutes,
        gpus=arguments.gpus,
        queue=_without_default(arguments.queue),
        account=_without_default(arguments.account),
        extra=arguments.extra,
    )
    name = submit_job(arguments.system, job)
    if name is None:
        return EXIT_USER_ERROR  # the first attempt has shown the error
    print(name)
    return 0


def _without_default(value: str) -> str:
    """Return an option of a profile; empty for the batch system's default."""
    return "" if value == _DEFAULT else value


if __name__ == "__main__":
    run_main(main)
