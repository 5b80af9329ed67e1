"""Checkpoints: atomic files with everything that exact resume needs."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from vrtspike.config.run_schema import TrainSettings
from vrtspike.io.files import atomic_path
from vrtspike.system.errors import RunError

if TYPE_CHECKING:
    from torch.distributed.checkpoint.stateful import Stateful

FORMAT = "vrtspike-checkpoint-2"
_DAMAGE = (RuntimeError, ValueError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile)
"""Errors raised for a damaged file."""


def checkpoint_path(folder: str | Path, step: int) -> Path:
    """Return the path of the checkpoint of ``step``."""
    return Path(folder) / f"step_{step:08d}.pt"


def list_checkpoints(folder: str | Path) -> list[tuple[int, Path]]:
    """Return (step, path) of all checkpoints in ``folder``, the newest first."""
    paths = Path(folder).glob(f"step_{'[0-9]' * 8}.pt")
    return sorted(((int(path.stem[-8:]), path) for path in paths), reverse=True)


def save_checkpoint(folder: str | Path, state: dict[str, Any], keep: int) -> None:
    """Write the checkpoint of ``state["step"]`` atomically and remove all but the newest ``keep``.

    Args:
        folder: the run's folder of checkpoints.
        state: tensors, numbers, strings and plain containers of them, with ``step``.
        keep: number of checkpoints to keep, this one included.
    """
    with atomic_path(checkpoint_path(folder, state["step"])) as temporary:
        torch.save({"format": FORMAT, **state}, temporary)
    for _, old in list_checkpoints(folder)[keep:]:
        old.unlink()


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint into host memory; no code in it is run.

    Raises:
        RunError: if the file is truncated, damaged or no checkpoint of this project; the message
            names the next older checkpoint and how to continue from it.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # PyTorch does not check the checksums
        if damaged is not None:
            raise zipfile.BadZipFile(f"{damaged} is damaged")
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict) or state.get("format") != FORMAT:
            raise ValueError(f"expected a file of {FORMAT}")
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise  # the file could not even be opened
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(
            f"{path}: cannot be read as a checkpoint ({reason}); it is damaged, of another kind or "
            f"of another version. {_advice_on_damage(path)}"
        ) from error
    return state


def _advice_on_damage(path: Path) -> str:
    """Return the next older checkpoint, or the advice to start again."""
    older = [other for _, other in list_checkpoints(path.parent) if other.name < path.name]
    if not older:
        return "There is no older one: remove the file to start from the beginning."
    return (
        f"The next older one is {older[0]}: remove the damaged file and start again to continue "
        "from there."
    )


def latest_checkpoint(folder: str | Path) -> dict[str, Any] | None:
    """Return the newest checkpoint's state; None without a checkpoint."""
    checkpoints = list_checkpoints(folder)
    if not checkpoints:
        return None
    _, newest = checkpoints[0]
    return read_checkpoint(newest)


def micro_batches_per_step(
    train: TrainSettings, world_size: int, state: dict[str, Any] | None
) -> int:
    """Return the number of micro-batches of an optimiser step, of all processes together.

    A run keeps this number: on another number of processes each one accumulates more or fewer
    micro-batches, and the result is the same up to rounding.

    Args:
        train: section TRAIN, whose ``GRADIENT_ACCUMULATION_STEPS`` decides at the start of a run.
        world_size: current number of processes.
        state: the checkpoint to continue from, if any.

    Raises:
        RunError: if the processes cannot share that number evenly.
    """
    if state is None:
        return train.GRADIENT_ACCUMULATION_STEPS * world_size
    number = int(state["micro_batches"])
    if number % world_size:
        raise RunError(
            f"the run was started with {number} batches per optimiser step (processes x "
            f"TRAIN.GRADIENT_ACCUMULATION_STEPS), which {world_size} processes cannot share evenly."
            f" Continue it on a number of GPUs that divides {number}, or remove its folder to "
            "begin again"
        )
    return number


def restore_training_state(
    folder: Path, checkpoint: dict[str, Any], fingerprint: str, objects: Mapping[str, Stateful]
) -> None:
    """Load a checkpoint into the objects of a run.

    Args:
        folder: folder of the checkpoints, for messages.
        checkpoint: checkpoint from :func:`read_checkpoint`.
        fingerprint: digest that identifies the run's computation.
        objects: the objects with a state, by their keys in a checkpoint; loss scaling
            (``precision``) must stay on or off.

    Raises:
        RunError: if it belongs to another run, another half precision or another version of this
            project.
    """
    if checkpoint["fingerprint"] != fingerprint:
        raise RunError(
            f"{folder}: the checkpoints belong to run {checkpoint['fingerprint']}, this is run "
            f"{fingerprint}: settings, data or weights have changed. Use a new run folder"
        )
    if bool(checkpoint["precision"]) != bool(objects["precision"].state_dict()):
        raise RunError(
            f"{folder}: TRAIN.PRECISION mixed was another half precision on the device of the "
            "start; continue on one of that kind, or remove the folder to begin again"
        )
    for name, stateful in objects.items():
        try:
            stateful.load_state_dict(checkpoint[name])
        except RunError as error:
            raise RunError(f"{folder}: {error}") from error
