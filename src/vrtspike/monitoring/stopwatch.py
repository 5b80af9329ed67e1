"""Time of the calls of a model, with the work that they launch on a device."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean

import torch


class Stopwatch:
    """Stopwatch for repeated work of one kind, such as the calls of a model.

    Args:
        device: device of the work; the end of a lap waits for it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._laps: list[float] = []

    @contextmanager
    def lap(self) -> Iterator[None]:
        """Time the body and the work that it launches on the device, as one lap."""
        started = time.perf_counter()
        yield
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._laps.append(time.perf_counter() - started)

    @property
    def seconds(self) -> float:
        """Seconds of all laps; the first of several counts as the mean of the others.

        In the first one the device loads its kernels.
        """
        if not self._laps:
            return 0.0
        return fmean(self._laps[1:] or self._laps) * len(self._laps)
