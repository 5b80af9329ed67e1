"""The folder of one run: which it is, who computes in it, whether it is done, how it makes room."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from vrtspike.errors import RunError
from vrtspike.locks import lock_file, require_lock_file
from vrtspike.runs.names import LAUNCHER_LOCK, LOCK, RECORD
from vrtspike.runs.record import read_record

LOCK_PATIENCE_S = 60.0
TURN_PATIENCE_S = 7 * 86400.0
"""Seconds a launcher waits for its turn; a batch system ends it before."""
_POLL_S = 0.2


@contextlib.contextmanager
def hold_run(
    folder: Path,
    patience_s: float = LOCK_PATIENCE_S,
    note: Callable[[str], None] = print,
    lock: str = LOCK,
) -> Iterator[None]:
    """Be the only process that trains in ``folder``; the lock ends with the process, however.

    Args:
        folder: the run's folder; it is created.
        patience_s: seconds to wait for another process, which may be about to end.
        note: is told when there is something to wait for.
        lock: name of the lock's file.

    Raises:
        RunError: naming the process that holds the run, or if something else than a file stands
            where the lock belongs, or the file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / lock
    require_lock_file(path)
    with path.open("a+", encoding="utf-8") as stream:
        deadline = time.monotonic() + patience_s
        told = False
        while not lock_file(stream.fileno(), path):
            holder = path.read_text(encoding="utf-8").strip() or "another process"
            if time.monotonic() >= deadline:
                raise RunError(
                    f"{folder}: {holder} is training in this run folder; wait for it, or stop it"
                )
            if not told:
                note(f"{folder}: waiting for {holder}, which is training there, to end")
                told = True
            time.sleep(_POLL_S)
        stream.truncate(0)
        stream.write(f"{_this_process()}\n")
        stream.flush()
        yield


@contextlib.contextmanager
def take_turn(folder: Path, note: Callable[[str], None]) -> Iterator[None]:
    """Be the only launcher of a run, after all that came before.

    A job of a batch system lives on when the Snakemake that submitted it is killed; the next one
    submits another for the same run, which waits here, holds no GPU of this machine's, and then
    finds the run finished or continues it.

    Args:
        folder: the run's folder; it is created.
        note: is told whom to wait for.

    Raises:
        RunError: as :func:`hold_run`.
    """
    with hold_run(folder, TURN_PATIENCE_S, note, LAUNCHER_LOCK):
        yield


def _this_process() -> str:
    """The words by which people find this process."""
    job = os.environ.get("SLURM_JOB_ID")
    where = f"process {os.getpid()} on {socket.gethostname()}"
    return f"Slurm job {job} ({where})" if job else where


def is_finished(folder: Path) -> bool:
    """Whether the run in ``folder`` has nothing left to do but to be published."""
    record = read_record(folder)
    return record is not None and record["status"] == "finished"


def set_aside(folder: Path, note: Callable[[str], None] = print) -> Path:
    """Make room for a new run of the same identity; nothing is removed.

    Returns:
        where the run that was there stands now: ``<folder>.1``, ``<folder>.2`` ...

    Raises:
        RunError: if a process is training in it, or a launcher is about to.
    """
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    with hold_run(folder, 0.0, note, LAUNCHER_LOCK), hold_run(folder, 0.0, note):
        folder.rename(aside)
    return aside


def find_run_folder(given: Path, runs: Path) -> Path:
    """The folder of a run that a person named.

    Args:
        given: the folder; one that holds folders of runs (``runs/<preset>``), of which the one
            that was written to last is meant; or the name of a preset.
        runs: folder of all runs.

    Raises:
        RunError: if there is no run.
    """
    for folder in (given, runs / given):
        found = latest_run(folder)
        if found is not None:
            return found
    known = sorted(path.name for path in runs.glob("*") if path.is_dir())
    raise RunError(
        f"{given}: no run there; expected its folder (runs/<preset>/<fingerprint>, which training "
        f"prints when it starts) or a preset, {runs} has runs of: {', '.join(known) or 'none'}"
    )


def latest_run(folder: Path) -> Path | None:
    """The folder if it is a run's, else the run in it that was written to last, if there is one."""
    if (folder / RECORD).is_file():
        return folder
    found = [record.parent for record in folder.glob(f"*/{RECORD}")]
    return max(found, key=lambda run: (run / RECORD).stat().st_mtime) if found else None
