"""The clips that are evaluated: sequences of a store, at their own size or scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.bins import bin_table
from vrtspike.deblurring.data.store.reading import Store


@dataclass(frozen=True)
class SourceFrames:
    """Consecutive frames of a clip.

    Attributes:
        blur: uint8 (T, H, W, 3) RGB.
        counts: (T, K, h, w) spikes per bin; uint8, or float32 where areas were averaged; None,
            as the next, where there are no spikes.
        bin_steps: uint8 (T, K), spike steps of each bin.
    """

    blur: NDArray[np.uint8]
    counts: NDArray[np.uint8] | NDArray[np.float32] | None = None
    bin_steps: NDArray[np.uint8] | None = None


class FrameSource(Protocol):
    """A clip that can be read piece by piece."""

    names: Sequence[str]
    """Names of the frames, in order."""

    size: tuple[int, int]
    """Height and width of the frames."""

    ratio: Fraction
    """Pixels of a frame for each spike pixel along each side; 1 where there are no spikes."""

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames; called from several threads."""

    def gain(self) -> float | None:
        """Brightness of a spike rate of 1; None without spikes.

        It is of the whole clip (:mod:`~vrtspike.deblurring.data.store.voxels`), so
        files are all read for it.
        """


class StoredSequence:
    """One sequence of a store.

    Args:
        store: opened for reading.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.names: Sequence[str] = store.layout.frames
        self.size = store.layout.rgb_size
        self.ratio = store.layout.scale

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames, with their spike counts if there are any."""
        blur = self._store.read("blur", frames, slice(None), slice(None))
        layout = self._store.layout
        if layout.spike_size is None:
            return SourceFrames(blur)
        counts = self._store.read("voxels", frames, slice(None), slice(None))
        return SourceFrames(blur, counts, bin_table(layout.binned[frames], layout.bins))

    def gain(self) -> float | None:
        """The gain that the store was written with."""
        return self._store.gain

    def read_sharp(self, frame: int) -> NDArray[np.uint8]:
        """One sharp frame, uint8 (H, W, 3)."""
        return self._store.read("sharp", slice(frame, frame + 1), slice(None), slice(None))[0]


class ScaledSource:
    """Another source with its frames and its sensor resized by areas.

    Args:
        source: the clip at its own size.
        scale: factor along each side; the sensor's sides are rounded to whole pixels.
    """

    def __init__(self, source: FrameSource, scale: float) -> None:
        self._source = source
        self.names = source.names
        self.ratio = source.ratio
        unit, sensor = self.ratio.numerator, self.ratio.denominator
        rows, columns = (max(1, round(side // unit * scale)) for side in source.size)
        self._sensor = (rows * sensor, columns * sensor)
        self.size = (rows * unit, columns * unit)

    def read(self, frames: slice) -> SourceFrames:
        """Read consecutive frames and resize them; counts become means of counts."""
        window = self._source.read(frames)
        blur = np.stack([resize_image(image, self.size) for image in window.blur])
        if window.counts is None:
            return SourceFrames(blur)
        counts = [
            np.stack([_resize(plane.astype(np.float32), self._sensor) for plane in grid])
            for grid in window.counts
        ]
        return SourceFrames(blur, np.stack(counts), window.bin_steps)

    def gain(self) -> float | None:
        """The gain of the clip at its own size: averaging areas changes no brightness."""
        return self._source.gain()


def resize_image(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Resize uint8 (H, W, 3) to (height, width) by averaging areas (enlarging: linearly)."""
    return np.rint(_resize(image.astype(np.float32), size)).clip(0, 255).astype(np.uint8)


def _resize(values: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    shrinks = size[0] * size[1] < values.shape[0] * values.shape[1]
    method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    resized = cv2.resize(values, (size[1], size[0]), interpolation=method)
    return np.asarray(resized, dtype=np.float32)
