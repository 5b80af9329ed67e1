"""How much arithmetic a run does, and how much its device could do."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

TRAINING_FACTOR = 3
"""Backward takes twice the operations of forward; what is computed again does not count."""

_SIZES = {"cuda": 8192, "cpu": 512}
_REPEATS = 3


def count_flops(forward: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products and convolutions in ``forward()``."""
    # A compiled block would hide its operations from the counter.
    with torch.compiler.set_stance("force_eager"), FlopCounterMode(display=False) as counter:
        forward()
    return int(counter.get_total_flops())


def measure_peak(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a square matrix product, the best of a few."""
    size = _SIZES.get(device.type, _SIZES["cpu"])
    a = torch.ones(size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(_REPEATS):
        _wait(device)
        start = time.perf_counter()
        a @ a
        _wait(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
