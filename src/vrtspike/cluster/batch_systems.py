"""Batch systems for Snakemake's generic executor: submit jobs, query their state, cancel them.

Each job writes its exit status into a file, because a batch system may forget ended jobs. The batch
system is queried only for jobs without that file.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from ruamel.yaml import YAML

from vrtspike.cluster.current_job import JOB_END_VARIABLE, REQUEUE_FILE_VARIABLE
from vrtspike.cluster.failures import is_permanent
from vrtspike.cluster.queries import QUERY_S, query
from vrtspike.io.files import json_digest, read_json, write_json
from vrtspike.system.errors import RunError
from vrtspike.system.termination import SNAKEMAKE_PROCESS_VARIABLE

JOBS_FOLDER = Path(".snakemake/batch")
"""Folder of the jobs' files, below the project's folder."""

LOST_S = 120.0
"""Seconds after which a job counts as lost: unknown to the batch system, no exit status."""

SUBMIT_S = 300.0
"""Timeout of a submission; ``bsub`` never ends if LSF does not answer."""

JobState = Literal["running", "success", "failed"]

_UNAVAILABLE = re.compile(
    r"(?i)no answer|connect|contact|not respond|timed out|temporar|unavailable|is down"
)
"""Error messages after which a submission is tried again."""


@dataclass(frozen=True)
class BatchJob:
    """A job and its resources.

    Attributes:
        name: name that the batch system shows.
        script: shell script to run.
        logs: folder of the log file.
        cores: number of cores, on one machine.
        mem_mb: memory in megabytes, of all cores together.
        minutes: wall time.
        gpus: number of GPUs, on the same machine.
        queue: queue or partition; empty for the default.
        account: account or project; empty for the default.
        extra: further options of the submit command.
    """

    name: str
    script: Path
    logs: Path
    cores: int = 1
    mem_mb: int = 2000
    minutes: int = 60
    gpus: int = 0
    queue: str = ""
    account: str = ""
    extra: str = ""


BATCH_SYSTEMS: Mapping[str, Mapping[str, str]] = YAML(typ="safe").load(
    files(__package__).joinpath("batch_systems.yaml").read_text(encoding="utf-8")
)
"""Commands of each batch system, see ``batch_systems.yaml``."""


def submit_job(system: str, job: BatchJob) -> str | None:
    """Submit a job.

    Args:
        system: a name of :data:`BATCH_SYSTEMS`.
        job: script, resources and logs of the job.

    Returns:
        the job's name for :func:`job_state` and :func:`cancel_jobs`; None if an earlier attempt
        failed for a reason that a retry cannot change, such as faulty data.

    Raises:
        RunError: if the batch system is not installed, rejects the job or does not answer within
            :data:`SUBMIT_S`.
    """
    if _failure_marker(job.name).exists():
        return None
    job.logs.mkdir(parents=True, exist_ok=True)
    token = uuid.uuid4().hex[:12]
    folder = JOBS_FOLDER.absolute() / token
    folder.mkdir(parents=True)
    # Snakemake removes its script when it ends; the job may still be waiting then.
    shutil.copy(job.script, folder / "job")
    outer = folder / "outer"
    outer.write_text(_script(folder, job.minutes), encoding="utf-8")
    outer.chmod(0o755)
    log = job.logs / f"{job.name}-{token}.log"
    command = [*_command(job, BATCH_SYSTEMS[system], log), str(outer)]
    write_json(folder / "record", {"name": job.name, "log": str(log), "command": command})
    try:
        return f"{system}:{_submit_command(command, BATCH_SYSTEMS[system], job.name)}:{token}"
    except RunError as error:
        shutil.rmtree(folder)
        if not _UNAVAILABLE.search(str(error)):
            _failure_marker(job.name).touch()
        raise


def _command(job: BatchJob, batch: Mapping[str, str], log: Path) -> list[str]:
    """Return the submit command of a job, without its script."""
    fields = vars(job)
    options = [batch[name] for name in ("gpus", "queue", "account") if fields[name]]
    values = {
        **fields,
        "log": log,
        "wall": f"{job.minutes // 60:02d}:{job.minutes % 60:02d}:00",
        "core_mb": max(1, job.mem_mb // job.cores),
        "chunk_gpus": f":ngpus={job.gpus}" if job.gpus else "",
    }
    words = shlex.split(" ".join([batch["submit"], *options]))
    command = [word.format_map(values) for word in words]
    return command + shlex.split(job.extra)


def _submit_command(command: Sequence[str], batch: Mapping[str, str], name: str) -> str:
    """Run a submit command and return the number of the job.

    The command keeps the user's environment, unlike queries: batch systems pass it on to the job.
    """
    try:
        completed = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SUBMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(
            f"{command[0]}: no answer within {SUBMIT_S:g} s. The job may have been "
            f"submitted nevertheless: find {name} with {batch['list_jobs']}, cancel it with "
            f"{batch['cancel']} and its number, then run the same command again"
        ) from error
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        fault = "no such program on the PATH" if is_missing else error.strerror
        raise RunError(
            f"{command[0]}: {fault}; set batch_system in the profile to the batch system of this "
            f"machine ({', '.join(BATCH_SYSTEMS)})"
        ) from error
    match = re.search(batch["number"], completed.stdout)
    if completed.returncode or match is None:
        output = (completed.stderr.strip() or completed.stdout.strip())[-1000:]
        raise RunError(f"{command[0]} refused the job ({shlex.join(command)}):\n{output}")
    return match[1]


def _script(folder: Path, minutes: int) -> str:
    """Return a shell script that runs the job and writes its exit status to a file."""
    path = shlex.quote(str(folder))
    return (
        "#!/bin/sh\n"
        f"{JOB_END_VARIABLE}=$(($(date +%s) + 60 * {minutes})); export {JOB_END_VARIABLE}\n"
        f"{REQUEUE_FILE_VARIABLE}={path}/again; export {REQUEUE_FILE_VARIABLE}\n"
        f"sh {path}/job\n"
        "status=$?\n"
        f"echo $status > {path}/tmp && mv {path}/tmp {path}/exit\n"
        "exit $status\n"
    )


def job_state(name: str) -> JobState:
    """Return the state of a job.

    A job also counts as ``running`` while the batch system does not answer, and if it is submitted
    again at its own request (:data:`REQUEUE_FILE_VARIABLE`).

    Args:
        name: name of the job, from :func:`submit_job`.
    """
    system, job_id, token = name.split(":")
    batch = BATCH_SYSTEMS[system]
    folder = JOBS_FOLDER / token
    ended = folder / "exit"
    request = folder / "again"
    if not ended.exists() and not _is_lost(batch, folder, job_id):
        return "running"
    record = read_json(folder / "record")
    result: JobState = "success" if ended.exists() and ended.read_text() == "0\n" else "failed"
    if result == "failed" and request.exists():
        request.unlink()
        ended.unlink(missing_ok=True)
        (folder / "gone").unlink(missing_ok=True)
        with contextlib.suppress(RunError):  # a retry continues the job
            new_job_id = _submit_command(record["command"], batch, record["name"])
            (folder / "number").write_text(new_job_id)
            return "running"
    log = Path(record["log"])
    if result == "failed" and log.is_file() and is_permanent(log.read_text(errors="replace")):
        _failure_marker(record["name"]).touch()
    shutil.rmtree(folder)
    return result


def cancel_jobs(names: Sequence[str]) -> str:
    """Cancel jobs of one batch system, waiting or running.

    Args:
        names: names of the jobs, from :func:`submit_job`.

    Returns:
        an error message; empty if the command succeeded.
    """
    jobs = [name.split(":") for name in names]
    job_ids = [_number(JOBS_FOLDER / token, job_id) for _, job_id, token in jobs]
    system = jobs[0][0]
    command = [BATCH_SYSTEMS[system]["cancel"], *job_ids]
    fault = query(command, limit_s=60.0).fault
    if not fault:
        return ""
    return f"jobs may go on ({fault}); to end them: {' '.join(command)}"


def _number(folder: Path, first: str) -> str:
    """Return the current ID of the job, which changes when it is submitted again."""
    resubmitted = folder / "number"
    return resubmitted.read_text() if resubmitted.is_file() else first


def _failure_marker(name: str) -> Path:
    """Return the file that marks a job as failed for good within the current Snakemake run."""
    return (
        JOBS_FOLDER
        / f"{json_digest([os.environ.get(SNAKEMAKE_PROCESS_VARIABLE), name])[:12]}.failed"
    )


def _is_lost(batch: Mapping[str, str], folder: Path, job_id: str) -> bool:
    """Return whether the batch system has reported a job as unknown for :data:`LOST_S`.

    On a network file system, the exit status of an ended job may appear late.
    """
    answer = query([*batch["query"].split(), _number(folder, job_id)], QUERY_S)
    gone_file = folder / "gone"
    is_answer = answer.text is not None or bool(answer.output.strip())
    is_active = re.search(batch["active"], answer.output) is not None
    if is_active or not is_answer or not re.search(batch["ended"], answer.output):
        gone_file.unlink(missing_ok=True)
        return False
    if not gone_file.exists():
        # The file's own time would be that of the file server, whose clock may differ.
        write_json(gone_file, time.time())
    return time.time() - read_json(gone_file) >= LOST_S
