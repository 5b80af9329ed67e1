"""Check the alignment of spikes and frames.

A short window slides over the spikes; its mean is an image of that instant. The centre of the
exposure is the instant whose image is most like the sharp frame. Image and frame are band-passed
first, which removes the brightness that all pictures share and the pixel noise of counting a few
spikes.

Spikes that fit their frame poorly are tried in other orders: bits of each byte, columns and rows
reversed, and shifted in space. An order that fits clearly better is reported as the fault.

The numbers beside the limits were measured on the generated data of the demo and on two recorded
exposures, frame 000226 of Spk-GoPro and one of S-REDS. ``tests/data/checks/test_alignment.py``
repeats the checks on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.checks.similarity import PEAK_RADIUS, band_pass, correlation, find_peak
from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.raw.spikes import size_ratio
from vrtspike.io.images import shrink

WINDOW = 9
"""Steps averaged for the image of one instant (fewer in files shorter than 18)."""

MIN_CORRELATION = 0.3
"""Correlation below which spikes and frame do not show the same scene.

On a real Spk-GoPro exposure of 360 x 640 the right frame gives 0.95, the same frame upside down or
another scene's frame at most 0.06 in any window; in cut-outs of 64 x 96 the right frame gives at
least 0.85, another scene's at most 0.14.
"""

MIN_TEXTURE = 0.02
"""Contrast (standard deviation after the band-pass, grey from 0 to 1) below which no verdict is
given: counting nine steps at a spike rate of grey / 2 leaves noise of about 0.03 after the
band-pass, so a weaker picture would not stand out even in the right spikes."""

MIN_SIDE = 24
"""Smallest sensor side for a verdict: smaller pictures hold too few independent details, unrelated
ones then correlate by chance."""

MIN_DISTINCTION = 0.05
"""Minimum fall of the correlation within the exposure for its peak to mark the centre. In a still
scene every instant looks alike and the peak means nothing; in the demo data, peaks lower than this
missed the true centre by up to 8 steps, higher ones by at most 3."""

DOUBTED = 0.8
"""Correlation below which other orders are tried: correct files of the demo data and of real
sensors have 0.91 or more, the same with the bits of each byte reversed 0.13 to 0.70."""

MIN_ORDER_LEAD = 0.1
"""Minimum lead in correlation of another order for it to be called the right one: 0.22 and more for
files in this order, none in correct ones."""

MIN_HALVES_LEAD = 0.03
"""Minimum lead in correlation of spikes with the bits of each half byte reversed for that to be the
right order: 0.05 and 0.15 in two real files (0.88 and 0.81 in their own order); correct files fit
worse by as much."""

_BIT_ORDER = "write the least significant bit first, numpy.packbits(..., bitorder='little')"
REVERSED_HALVES = f"the bits of each half byte reversed: {_BIT_ORDER}"
REVERSE_BYTE = 7
SWAP_NIBBLES = 4
REVERSE_NIBBLES = 3
_BIT_ORDERS = {
    REVERSE_BYTE: f"the bits of each byte reversed: {_BIT_ORDER}",
    SWAP_NIBBLES: "the halves of each byte (nibbles) exchanged: write byte >> 4 | byte << 4",
    REVERSE_NIBBLES: REVERSED_HALVES,
}
"""Faults and remedies by key: bit b of each byte is at place b ^ key.

In the number of a bit, from 0 to 7, key 7 inverts all three digits, 4 only the digit of the half
byte, and 3 the two digits within the half byte.
"""

MAX_SHIFT_PARTS = 8
"""Shifts in space are searched up to the sides of the sensor divided by this."""


@dataclass(frozen=True)
class Alignment:
    """The best match of a frame with the spikes of its exposure.

    Attributes:
        center: spike step (fractions by fitting a parabola to the peak).
        correlation: normalised cross-correlation there, -1 to 1.
        distinction: correlation at the peak less the lowest one of the examined windows.
        assessable: true if the frame is large and rich enough for a low correlation to mean
            anything.
        better: the order of bits, rows and columns, or the shift in space, in which the spikes
            would fit clearly better, and the remedy; empty if there is none.
        is_moved: true if ``better`` is a shift in space; single exposures may be shifted while
            their neighbours are not.
    """

    center: float
    correlation: float
    distinction: float
    assessable: bool
    better: str = ""
    is_moved: bool = False

    @property
    def matches(self) -> bool:
        """False if the spikes show another scene, or other bits, rows, columns or parts of it.

        Also true if the data do not allow a verdict.
        """
        if not self.assessable:
            return True
        return not self.better and self.correlation >= MIN_CORRELATION

    @property
    def locates(self) -> bool:
        """True if the centre is meaningful: a match whose peak stands out."""
        return self.assessable and self.matches and self.distinction >= MIN_DISTINCTION


def center_tolerance(steps: int) -> float:
    """Return the tolerance of a sequence's median centre in steps: T / 8, at least 4.

    Cameras whose sharp frame is at T / 2 (4 steps later) pass; spikes shifted by two source
    frames do not.

    >>> center_tolerance(88)
    11.0
    """
    return max(4.0, steps / 8)


def align(
    spikes: PackedSpikes | NDArray[np.uint8], gray: NDArray[np.generic], *, blurry: bool = False
) -> Alignment:
    """Find the step of the spikes at which a sharp frame was taken.

    Args:
        spikes: (T, h, w) of 0 and 1, packed or as an array uint8 (see
            :func:`~vrtspike.data.raw.spikes.read_spikes`).
        gray: grey frame (H, W), see :func:`~vrtspike.data.raw.spikes.size_ratio`;
            values 0 to 255; the blurry frame with ``blurry``.
        blurry: compare with the mean of the whole exposure instead of single instants; the centre
            then has no meaning.

    Raises:
        DataError: if the shapes do not fit together.
    """
    if not isinstance(spikes, PackedSpikes):
        spikes = PackedSpikes.pack(spikes)
    picture = _picture(spikes, gray)
    reference = band_pass(picture)
    window = len(spikes) if blurry else _window(spikes)
    peak, value, lowest = _search(spikes, picture, window)
    assessable = bool(reference.std() >= MIN_TEXTURE) and min(reference.shape) >= MIN_SIDE
    alignment = Alignment(peak + (window - 1) / 2, value, value - lowest, assessable)
    if not assessable:
        return alignment
    if value >= DOUBTED:
        likeness = _likeness_of_reversed_halves(spikes, round(peak), window, reference)
        if likeness < value + MIN_HALVES_LEAD:
            return alignment
        description = f"with {REVERSED_HALVES}"
        is_moved = False
    else:
        reordered = _best_order(spikes, picture, window)
        shifted = _best_shift(spikes, reference, window)
        likeness, description = max(reordered, shifted)
        is_moved = shifted > reordered
        if likeness < max(value + MIN_ORDER_LEAD, 2 * MIN_CORRELATION):
            return alignment
    better = f"{description} (correlation {likeness:.2f} instead of {value:.2f})"
    return replace(alignment, better=better, is_moved=is_moved)


def _likeness_of_reversed_halves(
    spikes: PackedSpikes, start: int, window: int, reference: NDArray[np.float32]
) -> float:
    """Return a window's correlation with reversed half bytes; 0 for widths not divisible by 4."""
    if spikes.columns % 4:
        return 0.0
    # Inverting the lowest two bits of their numbers reverses each four columns.
    columns = np.arange(spikes.columns) ^ REVERSE_NIBBLES
    reversed_picture = spikes.count_image(start, start + window)[:, columns]
    return correlation(band_pass(reversed_picture), reference)


def correlation_curve(
    spikes: PackedSpikes, gray: NDArray[np.generic], window: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the correlation of the spikes with a frame, instant by instant.

    Args:
        spikes: as for :func:`align`.
        gray: as for :func:`align`.
        window: steps that are averaged; None is as many as :func:`align` takes for a sharp frame.

    Returns:
        the centres of the windows (steps), and the correlation in each (-1 to 1).

    Raises:
        DataError: if the shapes do not fit together.
    """
    window = window or _window(spikes)
    reference = band_pass(_picture(spikes, gray))
    starts = range(len(spikes) - window + 1)
    curve = np.array([_likeness(spikes, start, window, reference) for start in starts])
    return np.arange(len(curve), dtype=np.float64) + (window - 1) / 2, curve


def misplacement(
    spikes: PackedSpikes, gray: NDArray[np.generic], exposure: Exposure
) -> float | None:
    """Return steps from the start of an exposure to the place where its blurry frame fits best.

    Args:
        spikes: spikes of the exposure, and those recorded before and after it.
        gray: blurry frame in grey, (H, W) from 0 to 255.
        exposure: exposure in steps of these spikes.

    Returns:
        None if no place stands out, as in a still scene.
    """
    _, curve = correlation_curve(spikes, gray, exposure.steps)
    position, value = find_peak(curve)
    if value < MIN_CORRELATION or value - curve.min() < MIN_DISTINCTION:
        return None
    return position - exposure.start


def _window(spikes: PackedSpikes) -> int:
    """Return steps of the sliding window for a sharp frame."""
    return max(1, min(WINDOW, len(spikes) // 2))


def _likeness(spikes: PackedSpikes, start: int, window: int, image: NDArray[np.float32]) -> float:
    """Return the correlation of the mean of a window with a band-passed picture of any size."""
    mean = shrink(spikes.count_image(start, start + window), *image.shape)
    return correlation(band_pass(mean), image)


def _picture(spikes: PackedSpikes, gray: NDArray[np.generic]) -> NDArray[np.float32]:
    """Return the frame at the sensor's size, from 0 to 1."""
    _, height, width = spikes.shape
    size_ratio((gray.shape[0], gray.shape[1]), (height, width))
    return shrink(gray, height, width).astype(np.float32) / np.float32(255)


def _search(
    spikes: PackedSpikes, picture: NDArray[np.float32], window: int
) -> tuple[float, float, float]:
    """Return the place and correlation of the most similar window, and the lowest correlation.

    For large sensors, the search is done on a sample: windows begin at every third step, and
    pictures have every n-th row (``PackedSpikes.subsampled``), with n columns averaged. The
    returned correlations are those of whole pictures.
    """
    sampled = spikes.subsampled
    row_stride = spikes.row_stride
    columns = max(1, sampled.columns // row_stride)
    small = band_pass(shrink(picture[::row_stride], sampled.shape[1], columns))
    stride = 1 if row_stride == 1 else max(1, window // 3)
    starts = range(0, len(spikes) - window + 1, stride)
    curve = np.array([_likeness(sampled, start, window, small) for start in starts])
    peak, _ = find_peak(curve, max(1, PEAK_RADIUS // stride))
    position = stride * peak
    reference = band_pass(picture)
    highest = _likeness(spikes, round(position), window, reference)
    lowest = _likeness(spikes, starts[curve.argmin()], window, reference)
    return position, highest, lowest


def _best_order(
    spikes: PackedSpikes, picture: NDArray[np.float32], window: int
) -> tuple[float, str]:
    """Find the order of bits, rows and columns in which spikes fit best.

    Args:
        spikes: as for :func:`align`.
        picture: the frame at their size.
        window: steps that are averaged.

    Returns:
        its correlation with the frame; the order and the remedy.
    """
    # Mirrored spikes correlate with the frame as the spikes do with the mirrored frame.
    mirrored = {
        "mirrored from right to left: write the left column first": picture[:, ::-1],
        "upside down: write the bottom row first": picture[::-1],
        "turned by 180 degrees: write bottom row first, from left": picture[::-1, ::-1],
    }
    results = []
    for description, mirrored_picture in mirrored.items():
        _, likeness, _ = _search(spikes, mirrored_picture, window)
        results.append((likeness, description))
    byte = np.arange(256)
    for key, description in _BIT_ORDERS.items():
        moved = [(byte >> bit & 1) << (bit ^ key) for bit in range(8)]
        table = np.sum(moved, axis=0).astype(np.uint8)
        # Reordered spikes are made one at a time and not kept: each takes as much memory as the
        # spikes.
        _, likeness, _ = _search(PackedSpikes(table[spikes.rows], spikes.columns), picture, window)
        results.append((likeness, f"with {description}"))
    return max(results)


def _best_shift(
    spikes: PackedSpikes, reference: NDArray[np.float32], window: int
) -> tuple[float, str]:
    """Find the shift in space in which the middle of the spikes fits best.

    Args:
        spikes: as for :func:`align`.
        reference: the band-passed frame at their size.
        window: steps that are averaged.

    Returns:
        its correlation with the frame; the shift and the remedy.
    """
    height, width = reference.shape
    rows = height // MAX_SHIFT_PARTS
    columns = width // MAX_SHIFT_PARTS
    inner = reference[rows : height - rows, columns : width - columns]
    start = (len(spikes) - window) // 2
    picture = band_pass(spikes.count_image(start, start + window))
    likeness = cv2.matchTemplate(picture, inner, cv2.TM_CCORR_NORMED)
    down, right = divmod(int(likeness.argmax()), likeness.shape[1])
    description = (
        f"moved by {rows - down} rows down and {columns - right} columns to the right: sensor and "
        "frames have to show the same part of the scene; vrtspike calibrate finds how they lie"
    )
    return float(likeness.max()), description


def mismatch(
    alignment: Alignment, spikes: Path | str, frame: Path | str, sensor: tuple[int, ...]
) -> str | None:
    """Return the fault of spikes that do not show their frame; None if they do.

    Args:
        alignment: alignment of spikes and frame.
        spikes: file of the spikes, for the message.
        frame: file of the frame, for the message.
        sensor: rows and columns of the sensor, for the message.
    """
    if alignment.better:
        return f"{spikes}: the spikes would fit {frame} better {alignment.better}"
    if alignment.matches:
        return None
    return (
        f"{spikes}: the spikes do not show {frame} (correlation {alignment.correlation:.2f} at "
        f"best, {MIN_CORRELATION} needed), in no order of bits, rows and columns: another frame's "
        f"file or exposure, or a wrong sensor size ({sensor[0]} x {sensor[1]})"
    )
