"""Published weights of pretrained backbones, verified."""

from __future__ import annotations

from pathlib import Path

import torch

from vrtspike.io.pretrained import verify_weights


def read_backbone(folder: str | Path, name: str) -> dict[str, torch.Tensor]:
    """Return the state dictionary in a file of published weights, on the CPU.

    Args:
        folder: folder of the weights (WEIGHTS.DIR).
        name: the file's published name.

    Raises:
        RunError: if the file is missing, or is not the published one.
    """
    path = Path(folder) / name
    verify_weights(path)
    state: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return state
