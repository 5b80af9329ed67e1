"""The state of a run: collected into checkpoints, restored from the newest one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import torch

from vrtspike.config.run_schema import RunSettings
from vrtspike.runs.checkpoints import check_same_run, save_best, save_checkpoint


class Stateful(Protocol):
    """A part of the state: a model, an optimiser, a counter."""

    def state_dict(self) -> Any: ...  # noqa: ANN401, D102

    def load_state_dict(self, state: Any) -> Any: ...  # noqa: ANN401, D102


class RunState:
    """Everything with a state, under its name in a checkpoint.

    Args:
        folder: of the checkpoints.
        fingerprint: identifies what the run computes.
        settings: of the run; every checkpoint holds them.
        micro_batches: micro-batches of an optimiser step, of all processes together.
        optimizer: whose kind a run never changes.
        parts: what is saved and restored.
    """

    def __init__(
        self,
        folder: Path,
        fingerprint: str,
        settings: RunSettings,
        micro_batches: int,
        optimizer: torch.optim.Optimizer,
        parts: dict[str, Stateful],
    ) -> None:
        self._folder = folder
        self._fingerprint = fingerprint
        self._settings = settings
        self._micro_batches = micro_batches
        self._optimizer = optimizer
        self._parts = {**parts, "optimizer": optimizer}

    def save(self, step: int) -> None:
        """Write the checkpoint after ``step`` and remove the oldest."""
        save_checkpoint(self._folder, self._collect(step), self._settings.TRAIN.KEEP_LAST)

    def save_best(self, step: int) -> None:
        """Keep the state after ``step`` as the best."""
        save_best(self._folder, self._collect(step))

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Go back to a checkpoint.

        Raises:
            RunError: if it belongs to another run or another optimiser.
        """
        check_same_run(checkpoint, self._fingerprint, self._optimizer, self._folder)
        for name, part in self._parts.items():
            part.load_state_dict(checkpoint[name])

    def _collect(self, step: int) -> dict[str, Any]:
        return {
            "step": step,
            "fingerprint": self._fingerprint,
            "settings": self._settings.model_dump(mode="json"),
            "micro_batches": self._micro_batches,
            "optimizer_type": type(self._optimizer).__name__,
            **{name: part.state_dict() for name, part in self._parts.items()},
        }
