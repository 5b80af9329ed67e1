"""Batch systems beside Slurm: how a job is handed in, asked for, and withdrawn.

How a job ended is not asked of the batch system, whose memory of ended jobs is short or needs an
accounting: each job writes its exit status into a file. The batch system only tells whether a job
that has not written any is still there.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vrtspike.errors import RunError, UserError
from vrtspike.files import atomic_write_text
from vrtspike.queueing.ask import ANSWER_S, ask

JOB_ENDS = "VRTSPIKE_JOB_ENDS"
"""Environment variable: when the job's wall time ends, in seconds since 1970."""

FOLDER = Path(".snakemake/batch")
"""Where jobs leave their exit status, below the project's folder."""

LOST_S = 120.0
"""A job that the batch system no longer knows, and that left no status after so long, is lost."""

SUBMIT_S = 300.0
"""Seconds for a batch system to take a job; LSF's own program waits for ever where LSF is away."""

_CANCEL_S = 60.0
"""Seconds for a batch system to withdraw jobs."""

State = Literal["running", "success", "failed"]


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
    """The commands of a batch system.

    Attributes:
        submit: the command for a job and its log, the script left out.
        number: the job's number in what the command prints.
        ask: the command that shows a job.
        alive: in what it prints of a job that waits or runs.
        unknown: in what it prints of a job that it does not know (any more).
        cancel: the command that withdraws jobs.
        mine: the command that shows a user's jobs with their names.
    """

    submit: Callable[[Job, Path], list[str]]
    number: re.Pattern[str]
    ask: tuple[str, ...]
    alive: re.Pattern[str]
    unknown: re.Pattern[str]
    cancel: tuple[str, ...]
    mine: str


def _lsf(job: Job, log: Path) -> list[str]:
    options = ["bsub", "-J", job.name, "-o", str(log), "-n", str(job.cores)]
    options += ["-R", f"span[hosts=1] rusage[mem={job.mem_mb}MB]", "-W", str(job.minutes)]
    options += ["-gpu", f"num={job.gpus}"] if job.gpus else []
    options += ["-q", job.queue] if job.queue else []
    return [*options, *(["-P", job.account] if job.account else [])]


def _pbs(job: Job, log: Path) -> list[str]:
    gpus = f":ngpus={job.gpus}" if job.gpus else ""
    parts = f"select=1:ncpus={job.cores}:mem={job.mem_mb}mb{gpus}"
    wall = f"walltime={job.minutes // 60:02d}:{job.minutes % 60:02d}:00"
    options = ["qsub", "-V", "-N", job.name[:15], "-j", "oe", "-o", str(log)]
    options += ["-l", parts, "-l", wall]
    options += ["-q", job.queue] if job.queue else []
    return [*options, *(["-A", job.account] if job.account else [])]


def _sge(job: Job, log: Path) -> list[str]:
    wall = f"h_rt={job.minutes // 60:02d}:{job.minutes % 60:02d}:00"
    options = ["qsub", "-terse", "-V", "-cwd", "-S", "/bin/sh", "-N", job.name, "-j", "y"]
    # Memory is asked for by core there.
    options += ["-o", str(log), "-pe", "smp", str(job.cores), "-l", wall]
    options += ["-l", f"mem_free={max(1, job.mem_mb // job.cores)}M"]
    options += ["-l", f"gpu={job.gpus}"] if job.gpus else []
    options += ["-q", job.queue] if job.queue else []
    return [*options, *(["-P", job.account] if job.account else [])]


def _slurm(job: Job, log: Path) -> list[str]:
    options = ["sbatch", "--parsable", "--job-name", job.name, "--output", str(log)]
    options += ["--nodes", "1", "--ntasks", "1", "--cpus-per-task", str(job.cores)]
    options += ["--mem", f"{job.mem_mb}M", "--time", str(job.minutes)]
    options += [f"--gres=gpu:{job.gpus}"] if job.gpus else []
    options += ["--partition", job.queue] if job.queue else []
    return [*options, *(["--account", job.account] if job.account else [])]


SYSTEMS = {
    "lsf": BatchSystem(
        _lsf,
        re.compile(r"Job <(\d+)>"),
        ("bjobs", "-noheader", "-o", "stat"),
        re.compile(r"^(PEND|PROV|WAIT|RUN|PSUSP|USUSP|SSUSP|UNKWN)\b", re.MULTILINE),
        re.compile(r"is not found|^(DONE|EXIT|ZOMBI)\b", re.MULTILINE),
        ("bkill",),
        "bjobs -w",
    ),
    "pbs": BatchSystem(
        _pbs,
        re.compile(r"^(\d+[^\s]*)$", re.MULTILINE),
        ("qstat", "-f"),
        re.compile(r"job_state = [^CFX]"),
        re.compile(r"Unknown Job|has finished|job_state = [CFX]", re.IGNORECASE),
        ("qdel",),
        'qstat -w -u "$USER"',
    ),
    "sge": BatchSystem(
        _sge,
        re.compile(r"^(\d+)", re.MULTILINE),
        ("qstat", "-j"),
        re.compile(r"^job_number:", re.MULTILINE),
        re.compile(r"do not exist"),
        ("qdel",),
        'qstat -u "$USER"',
    ),
    "slurm": BatchSystem(
        _slurm,
        re.compile(r"^(\d+)", re.MULTILINE),
        ("squeue", "--noheader", "--format", "%T", "--jobs"),
        re.compile(r"^(PENDING|CONFIGURING|RUNNING|SUSPENDED|COMPLETING|STOPPED|REQUEUED)", re.M),
        re.compile(r"Invalid job id|\A\s*\Z|^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)", re.M),
        ("scancel",),
        "squeue --me",
    ),
}
"""By the name that a profile gives."""


def submit(system: str, job: Job) -> str:
    """Hand in a job.

    Args:
        system: a name of :data:`SYSTEMS`.
        job: what to run.

    Returns:
        what :func:`state` and :func:`cancel` know it by.

    Raises:
        RunError: if the batch system is not here, refuses it (its words are part of the message) or
            does not answer within :data:`SUBMIT_S`.
    """
    batch = _system(system)
    token = uuid.uuid4().hex[:12]
    folder = FOLDER.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    job.logs.mkdir(parents=True, exist_ok=True)
    # The script is copied, because Snakemake removes its own when it ends; the job may live on.
    atomic_write_text(folder / f"{token}.job", job.script.read_text(encoding="utf-8"))
    outer = folder / f"{token}.sh"
    atomic_write_text(outer, _script(folder / token, job.minutes))
    outer.chmod(0o755)
    command = [
        *batch.submit(job, job.logs / f"{job.name}-{token}.log"),
        *shlex.split(job.extra),
        str(outer),
    ]
    try:
        return f"{system}:{_handed_in(command, batch, job.name)}:{token}"
    except RunError:
        for suffix in (".job", ".sh"):
            (folder / token).with_suffix(suffix).unlink(missing_ok=True)
        raise


def _handed_in(command: Sequence[str], batch: BatchSystem, name: str) -> str:
    """The number of a job that was just handed in."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SUBMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(
            f"{command[0]}: no answer within {SUBMIT_S:g} s. The job may have been taken all the "
            f"same: {batch.mine} shows it as {name}, {batch.cancel[0]} and its number withdraw it. "
            "Its script is removed, so that it does nothing if it has not begun. Then give the "
            "same command again"
        ) from error
    except FileNotFoundError as error:
        raise RunError(
            f"{command[0]}: no such program here; batch_system in the profile has to name the one "
            f"of this machine ({', '.join(SYSTEMS)}), and its programs have to be on the PATH"
        ) from error
    found = batch.number.search(done.stdout)
    if done.returncode or found is None:
        said = (done.stderr.strip() or done.stdout.strip())[-1000:]
        raise RunError(f"{command[0]} refused the job ({shlex.join(command)}):\n{said}")
    return found[1]


def _script(base: Path, minutes: int) -> str:
    """Run a job's script, and leave its exit status."""
    place = shlex.quote(str(base))
    return (
        "#!/bin/sh\n"
        f"{JOB_ENDS}=$(($(date +%s) + 60 * {minutes})); export {JOB_ENDS}\n"
        f"sh {place}.job\n"
        "status=$?\n"
        f"echo $status > {place}.tmp && mv {place}.tmp {place}.exit\n"
        "exit $status\n"
    )


def state(name: str) -> State:
    """How a job stands.

    A batch system that does not answer leaves it ``running``: it is asked again.

    Args:
        name: from :func:`submit`.
    """
    system, number, token = _parts(name)
    base = FOLDER / token
    ended = _exit_status(base)
    if ended is None:
        if not _is_gone(SYSTEMS[system], number):
            base.with_suffix(".gone").unlink(missing_ok=True)
            return "running"
        # A network file system may show the file late.
        ended = _exit_status(base)
        if ended is None and not _is_lost(base.with_suffix(".gone")):
            return "running"
    for suffix in (".exit", ".gone", ".job", ".sh"):
        base.with_suffix(suffix).unlink(missing_ok=True)
    return "success" if ended == 0 else "failed"


def cancel(names: Sequence[str]) -> list[str]:
    """Withdraw jobs, waiting or running.

    Args:
        names: from :func:`submit`.

    Returns:
        a line for each batch system that may not have withdrawn all: why, and what to do.
    """
    failed = []
    for system in SYSTEMS:
        numbers = [number for kind, number, _ in map(_parts, names) if kind == system]
        if numbers:
            command = [*SYSTEMS[system].cancel, *numbers]
            answer = ask(command, _CANCEL_S)
            if answer.text is None:
                failed.append(f"jobs may go on ({answer.fault}); to end them: {' '.join(command)}")
    return failed


def _system(name: str) -> BatchSystem:
    if name not in SYSTEMS:
        raise UserError(f"batch system {name!r} is not known; expected {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def _parts(name: str) -> tuple[str, str, str]:
    parts = name.split(":")
    if len(parts) != 3 or parts[0] not in SYSTEMS:
        raise UserError(f"{name!r} is no job that was handed in here; expected system:number:file")
    return parts[0], parts[1], parts[2]


def _exit_status(base: Path) -> int | None:
    try:
        return int(base.with_suffix(".exit").read_text())
    except (FileNotFoundError, ValueError):
        return None


def _is_gone(batch: BatchSystem, number: str) -> bool:
    """Whether the batch system says that a job is no longer there; no answer says nothing."""
    answer = ask([*batch.ask, number], ANSWER_S)
    if batch.alive.search(answer.said):
        return False
    # Only an answer counts: an empty one with an error is a batch system that is away.
    answers = answer.text is not None or bool(answer.said.strip())
    return answers and bool(batch.unknown.search(answer.said))


def _is_lost(mark: Path) -> bool:
    """Whether a job has been gone for long; begins to count when it is asked first."""
    if not mark.exists():
        atomic_write_text(mark, str(time.time()))
    return time.time() - float(mark.read_text()) >= LOST_S
