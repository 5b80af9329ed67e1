"""A clip without spikes for tests, whose frames a function gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

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
