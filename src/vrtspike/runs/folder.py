"""The folder of a run: its record and lock, and setting it aside."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vrtspike.io.files import finite_or_null, read_mapping, write_json
from vrtspike.io.locks import describe_process, lock_file
from vrtspike.runs.file_names import LAUNCHER_LOCK, LOCK, RUN_RECORD
from vrtspike.system.errors import RunError

SCHEMA = 2


def read_record(folder: Path) -> dict[str, Any] | None:
    """Read the record of a run; None if none exists yet.

    Raises:
        RunError: if it is damaged.
    """
    path = folder / RUN_RECORD
    if not path.is_file():
        return None
    advice = "remove it: a run continues from its checkpoints, a published one is published again"
    record = read_mapping(path, advice)
    if "status" not in record:
        raise RunError(f"{path}: not the record of a run, status is missing; remove it")
    return record


def require_record(folder: Path) -> dict[str, Any]:
    """Read the record of a run that has started.

    Raises:
        RunError: if it is missing or damaged.
    """
    record = read_record(folder)
    if record is None:
        raise RunError(
            f"{folder}: found no {RUN_RECORD}, which a training writes as it starts; wait for it, "
            "or give the folder of a run"
        )
    return record


class RunRecord:
    """Writer of ``run.json``.

    Args:
        folder: the run's folder.
        enabled: true if this process writes.
    """

    def __init__(self, folder: Path, enabled: bool) -> None:
        self._path = folder / RUN_RECORD
        self._enabled = enabled
        earlier = read_record(folder) if enabled else None
        self._contents: dict[str, Any] = {"starts": []} if earlier is None else earlier

    def start(self, step: int, **facts: Any) -> None:  # noqa: ANN401
        """Record a start, or a resume after ``step``; the failure of an earlier start is removed.

        Args:
            step: finished steps.
            facts: further JSON values; these replace the entries of an earlier start.
        """
        self._contents.pop("failure", None)
        self._contents |= {"schema": SCHEMA, **facts}
        self._contents["starts"].append(
            {
                "time": round(time.time(), 3),
                "step": step,
                "host": socket.gethostname(),
                "process": os.getpid(),
                "batch_job": os.environ.get("SLURM_JOB_ID"),
            }
        )
        self.update("running", step)

    def update(self, status: str, step: int, **results: Any) -> None:  # noqa: ANN401
        """Record the status: ``running``, ``interrupted``, ``failed`` or ``finished``.

        Results that are not finite (the PSNR of equal frames) become null.
        """
        self._contents |= {
            "status": status,
            "step": step,
            "updated": round(time.time(), 3),
            **results,
        }
        if self._enabled:
            write_json(self._path, finite_or_null(self._contents))


@contextlib.contextmanager
def lock_run(
    folder: Path,
    timeout_s: float = 60.0,
    note: Callable[[str], None] = print,
    lock: str = LOCK,
) -> Iterator[None]:
    """Lock a run's folder, so that no other process trains in it; the lock ends with the process.

    Args:
        folder: the run's folder; it is created.
        timeout_s: seconds to wait for another process that holds the lock.
        note: function called with a message before waiting.
        lock: name of the lock file.

    Raises:
        RunError: naming the process that holds the run, or if the file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / lock
    with path.open("a+", encoding="utf-8") as stream:
        deadline = time.monotonic() + timeout_s
        announced = False
        while not lock_file(stream.fileno(), path):
            holder = path.read_text(encoding="utf-8").strip() or "another process"
            if time.monotonic() >= deadline:
                raise RunError(
                    f"{folder}: {holder} is training in this run folder; wait for it, or stop it"
                )
            if not announced:
                note(f"{folder}: waiting for {holder}, which is training there, to end")
                announced = True
            time.sleep(0.2)
        stream.truncate(0)
        stream.write(f"{describe_process()}\n")
        stream.flush()
        yield


def is_finished(folder: Path) -> bool:
    """Return whether the run in ``folder`` is finished."""
    record = read_record(folder)
    return record is not None and record["status"] == "finished"


def set_aside(folder: Path) -> Path:
    """Rename a run's folder, so that a new run of the same identity can start.

    Returns:
        the new path: ``<folder>.1``, ``<folder>.2`` ...

    Raises:
        RunError: if a process trains in it, or a launcher holds it.
    """
    number = 1
    aside = folder.with_name(f"{folder.name}.{number}")
    while aside.exists():
        number += 1
        aside = folder.with_name(f"{folder.name}.{number}")
    with lock_run(folder, 0.0, lock=LAUNCHER_LOCK), lock_run(folder, 0.0):
        folder.rename(aside)
    return aside


def latest_run(folder: Path) -> Path | None:
    """Find the run in a folder: the folder itself, or else the most recently written run in it."""
    if (folder / RUN_RECORD).is_file():
        return folder
    records = list(folder.glob(f"*/{RUN_RECORD}"))
    if not records:
        return None
    return max(records, key=lambda record: record.stat().st_mtime).parent
