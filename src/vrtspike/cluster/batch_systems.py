"""Batch systems beside Slurm: how a job is submitted, asked for, and cancelled.

How a job ended is not asked of the batch system, whose memory of ended jobs is short or needs an
accounting: each job writes its exit status into a file. The batch system only tells whether a job
that has not written any is still there.
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
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from ruamel.yaml import YAML

from vrtspike.cluster.scheduler import ANSWER_S, JOB_AGAIN, JOB_ENDS, ask, is_permanent
from vrtspike.errors import RunError
from vrtspike.io.files import json_digest, read_json, write_json
from vrtspike.system.endings import STARTER

FOLDER = Path(".snakemake/batch")
"""Where jobs leave their exit status, below the project's folder."""

LOST_S = 120.0
"""A job that the batch system no longer knows, and that left no status after so long, is lost."""

SUBMIT_S = 300.0
"""Seconds for a batch system to take a job; LSF's own program waits for ever where LSF is away."""

_CANCEL_S = 60.0
"""Seconds for a batch system to cancel jobs."""

State = Literal["running", "success", "failed"]

_AWAY = re.compile(
    r"(?i)no answer|connect|contact|not respond|timed out|temporar|unavailable|is down"
)
"""What a batch system says that may take a job later."""


@dataclass(frozen=True)
class Job:
    """What a job asks for.

    Attributes:
        name: that the batch system shows.
        script: to run.
        logs: folder for what it prints.
        cores: on one machine.
        mem_mb: of memory, for all cores together.
        minutes: of wall time.
        gpus: on that machine.
        queue: to wait in; empty for the default.
        account: that pays; empty for the default.
        extra: further options of the command.
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


@dataclass(frozen=True)
class BatchSystem:
    """The commands of a batch system; ``batch_systems.yaml`` explains the attributes."""

    submit: str
    gpus: str
    queue: str
    account: str
    number: str
    ask: str
    alive: str
    unknown: str
    cancel: str
    mine: str

    def submission(self, job: Job, log: Path) -> list[str]:
        """The command for a job and its log, the script left out."""
        further = ((job.gpus, self.gpus), (job.queue, self.queue), (job.account, self.account))
        words = shlex.split(" ".join([self.submit, *(each for given, each in further if given)]))
        values = {
            **vars(job),
            "log": log,
            "wall": f"{job.minutes // 60:02d}:{job.minutes % 60:02d}:00",
            "core_mb": max(1, job.mem_mb // job.cores),
            "chunk_gpus": f":ngpus={job.gpus}" if job.gpus else "",
        }
        return [*(word.format_map(values) for word in words), *shlex.split(job.extra)]


_WORDS = YAML(typ="safe").load(
    files(__package__).joinpath("batch_systems.yaml").read_text(encoding="utf-8")
)

SYSTEMS = {name: BatchSystem(**words) for name, words in _WORDS.items()}
"""By the name that a profile gives."""


def submit(system: str, job: Job) -> str | None:
    """Submit a job.

    Args:
        system: a name of :data:`SYSTEMS`.
        job: what to run.

    Returns:
        what :func:`state` and :func:`cancel` know it by; None for another attempt of a job whose
        cause of failure is not going away, such as faulty data.

    Raises:
        RunError: if the batch system is not here, refuses it (its words are part of the message) or
            does not answer within :data:`SUBMIT_S`.
    """
    batch = SYSTEMS[system]
    if _given_up(job.name).exists():
        return None
    job.logs.mkdir(parents=True, exist_ok=True)
    token = uuid.uuid4().hex[:12]
    folder = FOLDER.absolute() / token
    folder.mkdir(parents=True)
    # The script is copied, because Snakemake removes its own when it ends; the job may live on.
    shutil.copy(job.script, folder / "job")
    outer = folder / "outer"
    outer.write_text(_script(folder, job.minutes), encoding="utf-8")
    outer.chmod(0o755)
    log = job.logs / f"{job.name}-{token}.log"
    command = [*batch.submission(job, log), str(outer)]
    write_json(folder / "record", {"name": job.name, "log": str(log), "command": command})
    try:
        return f"{system}:{_submit_command(command, batch, job.name)}:{token}"
    except RunError as error:
        shutil.rmtree(folder)
        if not _AWAY.search(str(error)):
            _given_up(job.name).touch()
        raise


def _submit_command(command: Sequence[str], batch: BatchSystem, name: str) -> str:
    """The number of a job that was just submitted."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SUBMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(
            f"{command[0]}: no answer within {SUBMIT_S:g} s. The job may have been taken all the "
            f"same: {batch.mine} shows it as {name}, {batch.cancel} and its number cancel it. "
            "Then give the same command again"
        ) from error
    except FileNotFoundError as error:
        raise RunError(
            f"{command[0]}: no such program here; batch_system in the profile has to name the one "
            f"of this machine ({', '.join(SYSTEMS)}), and its programs have to be on the PATH"
        ) from error
    found = re.search(batch.number, done.stdout)
    if done.returncode or found is None:
        said = (done.stderr.strip() or done.stdout.strip())[-1000:]
        raise RunError(f"{command[0]} refused the job ({shlex.join(command)}):\n{said}")
    return found[1]


def _script(folder: Path, minutes: int) -> str:
    """Run a job's script, and leave its exit status."""
    place = shlex.quote(str(folder))
    return (
        "#!/bin/sh\n"
        f"{JOB_ENDS}=$(($(date +%s) + 60 * {minutes})); export {JOB_ENDS}\n"
        f"{JOB_AGAIN}={place}/again; export {JOB_AGAIN}\n"
        f"sh {place}/job\n"
        "status=$?\n"
        f"echo $status > {place}/tmp && mv {place}/tmp {place}/exit\n"
        "exit $status\n"
    )


def state(name: str) -> State:
    """How a job stands.

    A batch system that does not answer leaves it ``running``: it is asked again. So does a job that
    is to be continued (:data:`JOB_AGAIN`), which is submitted again.

    Args:
        name: from :func:`submit`.
    """
    system, number, token = name.split(":")
    folder = FOLDER / token
    if not (folder / "exit").exists():
        if not _is_gone(SYSTEMS[system], _number(folder, number)):
            (folder / "gone").unlink(missing_ok=True)
            return "running"
        # A network file system may show the status late.
        if not (folder / "exit").exists() and not _is_lost(folder / "gone"):
            return "running"
    failed = not (folder / "exit").exists() or (folder / "exit").read_text() != "0\n"
    record = read_json(folder / "record")
    if failed and (folder / "again").exists():
        (folder / "again").unlink()
        (folder / "exit").unlink(missing_ok=True)
        with contextlib.suppress(RunError):  # a retry continues it
            again = _submit_command(record["command"], SYSTEMS[system], record["name"])
            (folder / "number").write_text(again)
            return "running"
    log = Path(record["log"])
    if failed and log.is_file() and is_permanent(log.read_text(errors="replace")):
        _given_up(record["name"]).touch()
    shutil.rmtree(folder)
    return "failed" if failed else "success"


def cancel(names: Sequence[str]) -> str:
    """Cancel jobs of one batch system, waiting or running.

    Args:
        names: from :func:`submit`.

    Returns:
        why not all may be cancelled, and what to do; empty where all are.
    """
    jobs = [name.split(":") for name in names]
    numbers = [_number(FOLDER / token, number) for _, number, token in jobs]
    command = [SYSTEMS[jobs[0][0]].cancel, *numbers]
    answer = ask(command, _CANCEL_S)
    if answer.text is not None:
        return ""
    return f"jobs may go on ({answer.fault}); to end them: {' '.join(command)}"


def _number(folder: Path, first: str) -> str:
    """The number of a job that may have been submitted again."""
    again = folder / "number"
    return again.read_text() if again.is_file() else first


def _given_up(name: str) -> Path:
    """Is there where the Snakemake that asks has seen a job of this name fail for good."""
    return FOLDER / f"{json_digest([os.environ.get(STARTER), name])[:12]}.failed"


def _is_gone(batch: BatchSystem, number: str) -> bool:
    """Whether the batch system says that a job is no longer there; no answer says nothing."""
    answer = ask([*batch.ask.split(), number], ANSWER_S)
    if re.search(batch.alive, answer.said):
        return False
    # Only an answer counts: an empty one with an error is a batch system that is away.
    answers = answer.text is not None or bool(answer.said.strip())
    return answers and bool(re.search(batch.unknown, answer.said))


def _is_lost(mark: Path) -> bool:
    """Whether a job has been gone for long; begins to count when it is asked first."""
    if not mark.exists():
        mark.touch()
    return time.time() - mark.stat().st_mtime >= LOST_S
