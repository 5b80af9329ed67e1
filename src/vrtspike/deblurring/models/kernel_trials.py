"""What trials of our own kernels against their definitions have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def isolated(device: torch.device) -> Iterator[None]:
    """Around a trial, which draws the same random numbers each time.

    It neither uses up random numbers of the run nor joins its graph or its autocast.
    """
    drawing = [device] if device.type == "cuda" else []
    off = torch.autocast(device.type, enabled=False)
    numbers = torch.random.fork_rng(devices=drawing)
    with torch.inference_mode(False), torch.enable_grad(), off, numbers:
        torch.manual_seed(0)
        yield


def shares_of_norm(found: Iterable[Tensor], expected: Iterable[Tensor]) -> list[float]:
    """Differences of tensors from what is expected of them (float32), as shares of its norm."""
    pairs = zip(found, expected, strict=True)
    return [((a.float() - b).norm() / b.norm()).item() for a, b in pairs]


def largest(differences: list[float]) -> float:
    """The largest difference; NaN where there is one, which Python's max() may pass over."""
    return torch.tensor(differences).max().item()
