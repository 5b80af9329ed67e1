"""Pretrained backbones as tensors; nothing is read that was not verified."""

from __future__ import annotations

from pathlib import Path

import torch

from vrtspike.pretrained import verify_weights


def read_backbone(folder: str | Path, name: str) -> dict[str, torch.Tensor]:
    """The state dictionary in a file of published weights, on the CPU.

    Args:
        folder: where the weights are (WEIGHTS.DIR).
        name: the file's published name.

    Raises:
        DataError: if the file is missing, or is not the published one.
    """
    path = Path(folder) / name
    verify_weights(path)
    state: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return state
