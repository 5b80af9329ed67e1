"""Clips without spikes for tests, whose frames a function or an array gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.restoration.inputs.clip_source import ClipSource


class FunctionSource(ClipSource):
    """A clip that reads its frames by a function."""

    def __init__(
        self, names: Sequence[str], size: tuple[int, int], read: Callable[[slice], NDArray[Any]]
    ) -> None:
        super().__init__(names, size, Fraction(1))
        self._read = read

    def blurry_frames(self, frames: slice) -> NDArray[Any]:
        return self._read(frames)

    def count_spikes(self, frames: slice) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        raise NotImplementedError

    def gain(self) -> None:
        return None


def source_of(frames: np.ndarray, windows: list[range] | None = None) -> ClipSource:
    """Frames (T, H, W, 3) in memory; notes the windows that are read of them."""

    def read(time: slice) -> np.ndarray:
        if windows is not None:
            windows.append(range(len(frames))[time])
        return frames[time]

    return FunctionSource(range(len(frames)), frames.shape[1:3], read)
