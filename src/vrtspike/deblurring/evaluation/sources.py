"""The clips that are evaluated: sequences of a store, at their own size or scaled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

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


@dataclass(frozen=True)
class FrameSource:
    """A clip that can be read piece by piece.

    Attributes:
        names: of the frames, in order.
        size: height and width of the frames.
        ratio: pixels of a frame for each spike pixel along each side; 1 where there are no spikes.
        read: gives consecutive frames; called from several threads.
        gain: gives the brightness of a spike rate of 1, None without spikes. It is of the whole
            clip (:mod:`~vrtspike.deblurring.data.store.voxels`), so files are all read for it.
    """

    names: Sequence[str]
    size: tuple[int, int]
    ratio: Fraction
    read: Callable[[slice], SourceFrames]
    gain: Callable[[], float | None]


def stored_sequence(store: Store) -> FrameSource:
    """One sequence of a store, opened for reading."""
    layout, whole = store.layout, slice(None)

    def read(frames: slice) -> SourceFrames:
        blur = store.read("blur", frames, whole, whole)
        if layout.spike_size is None:
            return SourceFrames(blur)
        counts = store.read("voxels", frames, whole, whole)
        return SourceFrames(blur, counts, bin_table(layout.binned[frames], layout.bins))

    return FrameSource(layout.frames, layout.rgb_size, layout.scale, read, lambda: store.gain)


def sharp_frame(store: Store, frame: int) -> NDArray[np.uint8]:
    """One sharp frame of a store, uint8 (H, W, 3)."""
    return store.read("sharp", slice(frame, frame + 1), slice(None), slice(None))[0]


def scaled(source: FrameSource, scale: float) -> FrameSource:
    """Another source with its frames and its sensor resized by areas.

    The gain is that of the clip at its own size: averaging areas changes no brightness.

    Args:
        source: the clip at its own size.
        scale: factor along each side; the sensor's sides are rounded to whole pixels.
    """
    unit, sensor = source.ratio.numerator, source.ratio.denominator
    rows, columns = (max(1, round(side // unit * scale)) for side in source.size)
    size, sensor_size = (rows * unit, columns * unit), (rows * sensor, columns * sensor)

    def read(frames: slice) -> SourceFrames:
        """Counts become means of counts."""
        window = source.read(frames)
        blur = np.stack([resize_image(image, size) for image in window.blur])
        if window.counts is None:
            return SourceFrames(blur)
        counts = [
            np.stack([_resize(plane.astype(np.float32), sensor_size) for plane in grid])
            for grid in window.counts
        ]
        return SourceFrames(blur, np.stack(counts), window.bin_steps)

    return replace(source, size=size, read=read)


def resize_image(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Resize uint8 (H, W, 3) to (height, width) by averaging areas (enlarging: linearly)."""
    return np.rint(_resize(image.astype(np.float32), size)).clip(0, 255).astype(np.uint8)


def _resize(values: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    shrinks = size[0] * size[1] < values.shape[0] * values.shape[1]
    method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    resized = cv2.resize(values, (size[1], size[0]), interpolation=method)
    return np.asarray(resized, dtype=np.float32)
