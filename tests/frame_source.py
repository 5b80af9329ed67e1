"""Clips without spikes for tests, whose frames a function or an array gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from vrtspike.restoration.inputs.clip_source import Frames, FrameSource


class FunctionSource(FrameSource):
    """A clip that reads its frames by a function."""

    def __init__(
        self, names: Sequence[str], size: tuple[int, int], read: Callable[[slice], Frames]
    ) -> None:
        super().__init__(names, size, Fraction(1))
        self._read = read

    def read(self, frames: slice) -> Frames:
        return self._read(frames)

    def gain(self) -> None:
        return None


def source_of(frames: np.ndarray, windows: list[range] | None = None) -> FrameSource:
    """Frames (T, H, W, 3) in memory; notes the windows that are read of them."""

    def read(time: slice) -> Frames:
        if windows is not None:
            windows.append(range(len(frames))[time])
        return {"blur": frames[time]}

    return FunctionSource(range(len(frames)), frames.shape[1:3], read)
