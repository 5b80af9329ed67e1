"""Checkpoints: atomic files that hold everything a run needs to go on as if never interrupted."""

from __future__ import annotations

import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import torch

from vrtspike.config.train_schema import TrainSettings
from vrtspike.errors import RunError
from vrtspike.files import atomic_path

FORMAT = "vrtspike-checkpoint-1"
BEST = "best.pt"
_NAME = re.compile(r"step_(\d{8})\.pt$")
_DAMAGE = (RuntimeError, ValueError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile)
"""What the readers of archives and tensors raise, depending on where a file is damaged."""


def checkpoint_path(folder: str | Path, step: int) -> Path:
    """Where the checkpoint of ``step`` stands."""
    return Path(folder) / f"step_{step:08d}.pt"


def list_checkpoints(folder: str | Path) -> list[tuple[int, Path]]:
    """(step, path) of all checkpoints in ``folder``, the newest first."""
    found = []
    for path in Path(folder).glob("step_*.pt"):
        match = _NAME.match(path.name)
        if match:
            found.append((int(match.group(1)), path))
    return sorted(found, reverse=True)


def save_checkpoint(folder: str | Path, state: dict[str, Any], keep: int) -> Path:
    """Write the checkpoint of ``state["step"]`` atomically and remove all but the newest ``keep``.

    Args:
        folder: the run's folder of checkpoints.
        state: tensors, numbers, strings and plain containers of them, with ``step``.
        keep: checkpoints that stay, this one included.
    """
    path = checkpoint_path(folder, state["step"])
    _write(path, state)
    for _, old in list_checkpoints(folder)[keep:]:
        old.unlink()
    return path


def save_best(folder: str | Path, state: dict[str, Any]) -> Path:
    """Keep a state as the best one, besides the newest; replaces the previous best atomically."""
    path = Path(folder) / BEST
    _write(path, state)
    return path


def _write(path: Path, state: dict[str, Any]) -> None:
    with atomic_path(path) as temporary:
        torch.save({"format": FORMAT, **state}, temporary)


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint into host memory; nothing in it is executed.

    Raises:
        RunError: if the file is truncated, damaged or no checkpoint of this project; the message
            names the next older one of the same folder and what to do to continue from it.
    """
    path = Path(path)
    try:
        _check_sums(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise  # the file could not even be opened
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(
            f"{path}: cannot be read as a checkpoint ({reason}); it is damaged or another kind "
            f"of file. {_offer_older(path)}"
        ) from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise RunError(
            f"{path}: a PyTorch file, but no checkpoint of this project (expected {FORMAT}). "
            f"{_offer_older(path)}"
        )
    return state


def _check_sums(path: Path) -> None:
    """Compare the contents with their checksums, which PyTorch does not read.

    Raises:
        zipfile.BadZipFile: if they differ, or the file is no complete archive.
    """
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise zipfile.BadZipFile(f"{damaged} is damaged")


def latest_checkpoint(folder: str | Path) -> dict[str, Any] | None:
    """The newest checkpoint's state, or None where there is none yet."""
    found = list_checkpoints(folder)
    return read_checkpoint(found[0][1]) if found else None


def micro_batches_per_step(
    train: TrainSettings, world_size: int, state: dict[str, Any] | None
) -> int:
    """Micro-batches of an optimiser step, of all processes together.

    A run keeps the number it was started with: on another number of processes each accumulates
    more or less, and the result stays the same but for rounding.

    Args:
        train: ``GRADIENT_ACCUMULATION_STEPS`` decides at the start of a run.
        world_size: processes now.
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
            "begin anew"
        )
    return number


def check_same_run(
    state: dict[str, Any], fingerprint: str, optimizer: torch.optim.Optimizer, folder: Path
) -> None:
    """Refuse a checkpoint of another run or of another optimiser.

    Raises:
        RunError: naming both sides.
    """
    if state["fingerprint"] != fingerprint:
        raise RunError(
            f"{folder}: the checkpoints belong to run {state['fingerprint']}, this is run "
            f"{fingerprint}: settings, data or code have changed. Use a new run folder"
        )
    kind = type(optimizer).__name__
    if state["optimizer_type"] != kind:
        raise RunError(
            f"{folder}: the run was started with the optimiser {state['optimizer_type']}, now it "
            f"would be {kind}; a run never changes its optimiser. Is bitsandbytes installed as it "
            "was at the start?"
        )


def _offer_older(path: Path) -> str:
    steps = [step for step, other in list_checkpoints(path.parent) if other.name < path.name]
    if not steps:
        return "There is no older one: remove the file to start from the beginning."
    return (
        f"The next older one is {checkpoint_path(path.parent, steps[0])}: remove the damaged file "
        "and start again to continue from there."
    )
