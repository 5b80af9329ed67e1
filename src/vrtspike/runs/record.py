"""``run.json``: where and when a run was computed, how far it is, what it came to."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

from vrtspike.errors import RunError
from vrtspike.files import finite_or_null, read_json, write_json
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.names import RECORD

SCHEMA = 2


def read_record(folder: Path) -> dict[str, Any] | None:
    """The record of a run; None where there is none yet.

    Raises:
        RunError: if it is damaged.
    """
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        found = read_json(path)
    except ValueError as error:
        raise RunError(
            f"{path}: damaged, no JSON ({error}); remove it: a run goes on from its checkpoints, "
            "a published one is published again"
        ) from error
    if not isinstance(found, dict) or "status" not in found:
        raise RunError(f"{path}: not the record of a run, status is missing; remove it")
    return found


class RunRecord:
    """``run.json`` of a run at work.

    Args:
        folder: the run's folder.
        enabled: whether this process writes.
    """

    def __init__(self, folder: Path, enabled: bool) -> None:
        self._path = folder / RECORD
        self._enabled = enabled
        known = read_record(folder) if enabled else None
        self._contents: dict[str, Any] = {"starts": []} if known is None else known

    @property
    def is_finished(self) -> bool:
        """Whether the run has come to its end."""
        return self._contents.get("status") == "finished"

    def start(self, run: RunIdentity, step: int, **facts: Any) -> None:  # noqa: ANN401
        """Note a start, or a resume after ``step``.

        What an earlier start failed of goes: it was overcome.

        Args:
            run: what is computed.
            step: finished steps.
            facts: further JSON values; they replace those of an earlier start.
        """
        self._contents.pop("failure", None)
        self._contents |= {
            "schema": SCHEMA,
            "name": run.name,
            "fingerprint": run.fingerprint,
            "dataset": run.dataset,
            "dataset_digest": run.dataset_digest,
            **facts,
        }
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

    def update(self, status: str, step: int, **figures: Any) -> None:  # noqa: ANN401
        """Note where the run stands: ``running``, ``interrupted``, ``failed`` or ``finished``.

        Figures that are not finite (the PSNR of equal frames) become null.
        """
        self._contents |= {
            "status": status,
            "step": step,
            "updated": round(time.time(), 3),
            **figures,
        }
        if self._enabled:
            write_json(self._path, finite_or_null(self._contents))
