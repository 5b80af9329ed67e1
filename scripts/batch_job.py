"""Submit, query and cancel jobs of a batch system: LSF, PBS, Grid Engine or Slurm.

Snakemake's generic executor calls it (workflow/profiles/generic). `submit` prints the name of the
job for `state` and `cancel`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from vrtspike.cluster.batch_systems import FOLDER, SYSTEMS, Job, cancel, state, submit
from vrtspike.system.cli import run
from vrtspike.system.errors import EXIT_USER_ERROR

_DEFAULT = "none"
"""Value in profiles for the batch system's default."""


def main() -> int:
    """Parse the arguments, call the batch system."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("submit", help="submit a script; prints the job").add_argument
    add("system", choices=SYSTEMS, help="the batch system")
    add("--name", required=True, help="of the job")
    add("--cores", type=int, required=True, help="on one machine")
    add("--mem-mb", type=int, required=True, help="memory of all cores together")
    add("--minutes", type=int, required=True, help="wall time")
    add("--gpus", type=int, default=0, help="on that machine")
    add("--queue", default=_DEFAULT, help="none: the default queue")
    add("--account", default=_DEFAULT, help="none: the default account or project")
    add("--extra", default="", help="further options of the batch system's command, as one word")
    add("script", type=Path, help="to run")
    add = commands.add_parser("state", help="print running, success or failed").add_argument
    add("job", help="what submit printed")
    add = commands.add_parser("cancel", help="cancel jobs").add_argument
    add("jobs", nargs="+", help="what submit printed")
    arguments = parser.parse_args()
    if arguments.command == "submit":
        name = submit(arguments.system, _job(arguments))
        if name is None:
            return EXIT_USER_ERROR  # the first attempt has shown the error
        print(name)
    elif arguments.command == "state":
        print(state(arguments.job))
    elif fault := cancel(arguments.jobs):
        print(fault, file=sys.stderr)
    return 0


def _job(arguments: argparse.Namespace) -> Job:
    queue, account = (
        "" if given == _DEFAULT else given for given in (arguments.queue, arguments.account)
    )
    return Job(
        name=arguments.name,
        script=arguments.script,
        logs=FOLDER.absolute() / "logs",
        cores=arguments.cores,
        mem_mb=arguments.mem_mb,
        minutes=arguments.minutes,
        gpus=arguments.gpus,
        queue=queue,
        account=account,
        extra=arguments.extra,
    )


if __name__ == "__main__":
    run(main)
