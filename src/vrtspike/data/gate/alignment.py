"""Do these spikes belong to this sharp frame, where in them does it lie, and are they in order?

A short window slides over the spikes; its mean is an image of that instant. Where this image is
most like the sharp frame lies the centre of the exposure. Both are band-passed first, which removes
the brightness that all pictures share and the pixel noise of counting a few spikes.

A pixel of an integrating sensor gathers light between two spikes, so at a rate below 1/2 it hardly
ever fires twice in a row. Shuffled steps lose that: pairs of successive spikes become as frequent
as chance makes them. (Real recordings: 0.000 of that frequency; the same shuffled: 0.99 to 1.03.)

Spikes that fit their frame poorly are tried in other orders: bits of each byte, columns and rows
reversed, and shifted in space. One that fits clearly better is named as what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.raw.spikes import frame_scale
from vrtspike.io.images import shrink

WINDOW = 9
"""Spike frames averaged for the image of one instant (fewer in files shorter than 18)."""

FINE_SIGMA = 1.0
_BOX = 11

MIN_CORRELATION = 0.3
"""Below this, spikes and frame do not show the same scene.

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
"""How far the correlation must fall off within the exposure for its peak to say where the centre
is. In a still scene every instant looks alike and the peak means nothing; in the demo data, peaks
lower than this missed the true centre by up to 8 steps, higher ones by at most 3."""

DOUBTED = 0.8
"""Correlation below which other orders are tried: right files of the demo data and of real sensors
have 0.91 or more, the same with the bits of each byte reversed 0.13 to 0.70."""

CLEARLY_BETTER = 0.1
"""By how much another order has to fit better to be called the right one: 0.22 and more for files
in which it is, nothing in sound ones."""

BETTER_HALVES = 0.03
"""By how much spikes with the bits of each half byte reversed fit better than as they stand, where
that is their order: by 0.05 and 0.15 in two real files (0.88 and 0.81 as they stand); sound files
fit worse by as much."""

_BIT_ORDER = "write the least significant bit first, numpy.packbits(..., bitorder='little')"
REVERSED_HALVES = f"the bits of each half byte reversed: {_BIT_ORDER}"
_BIT_ORDERS = {
    7: f"the bits of each byte reversed: {_BIT_ORDER}",
    4: "the halves of each byte (nibbles) exchanged: write byte >> 4 | byte << 4",
    3: REVERSED_HALVES,
}
"""Faults and remedies by key: bit b of each byte stands in place b ^ key."""

MOST_SHIFT = 8
"""A shift in space is looked for up to this part of the sensor's sides."""

MOST_DISORDER = 0.7
"""Disorder above which the steps count as shuffled."""

MIN_PAIRS = 200
"""Pairs that chance must make for a verdict; fewer say nothing."""

_FIT_RADIUS = 4


@dataclass(frozen=True)
class Alignment:
    """What sliding over the spikes of one exposure found."""

    center: float
    """Spike step (fractions by fitting a parabola to the peak)."""
    correlation: float
    """Normalised cross-correlation there, -1 to 1."""
    distinction: float
    """Correlation at the peak less the lowest one of the windows that were looked at."""
    assessable: bool
    """Whether the frame is large and rich enough for a low correlation to mean anything."""
    better: str = ""
    """The order of bits, rows and columns, or the shift in space, in which the spikes would fit
    clearly better, and what to do; empty where there is none."""
    is_moved: bool = False
    """Whether that is a shift, by which an exposure may also differ from its neighbours."""

    @property
    def matches(self) -> bool:
        """False where the spikes show another scene, or this one in another order of bits, rows or
        columns; true also where nothing can be said."""
        if not self.assessable:
            return True
        return self.is_moved if self.better else self.correlation >= MIN_CORRELATION

    @property
    def locates(self) -> bool:
        """Whether the centre is meaningful: a match whose peak stands out."""
        is_clear = self.distinction >= MIN_DISTINCTION and not self.is_moved
        return self.assessable and self.matches and is_clear


def center_tolerance(spike_frames: int) -> float:
    """Steps by which a sequence's median centre may miss the expected one: T / 8, at least 4.

    Cameras whose sharp frame lies at T / 2 (4 steps later) pass; spikes shifted by two source
    frames do not.

    >>> center_tolerance(88)
    11.0
    """
    return max(4.0, spike_frames / 8)


def align(spikes: PackedSpikes, gray: NDArray[np.generic], *, blurry: bool = False) -> Alignment:
    """Find the step of the spikes at which a sharp frame was taken.

    Args:
        spikes: (T, h, w).
        gray: grey frame (H, W), see :func:`~vrtspike.data.raw.spikes.frame_scale`;
            values 0 to 255; the blurry frame with ``blurry``.
        blurry: compare with the mean of the whole exposure instead of single instants; the centre
            then says nothing.

    Raises:
        DataError: if the shapes do not fit together.
    """
    picture = _picture(spikes, gray)
    reference = band_pass(picture)
    window = len(spikes) if blurry else _window(spikes)
    peak, value, low = _search(spikes, picture, window)
    assessable = bool(reference.std() >= MIN_TEXTURE) and min(reference.shape) >= MIN_SIDE
    found = Alignment(peak + (window - 1) / 2, value, value - low, assessable)
    if not assessable:
        return found
    if value >= DOUBTED:
        likeness = _likeness_of_reversed_halves(spikes, round(peak), window, reference)
        if likeness < value + BETTER_HALVES:
            return found
        return replace(found, better=_compared(f"with {REVERSED_HALVES}", likeness, value))
    moved = _moved(spikes, reference, window)
    likeness, how = max(_misread(spikes, picture, window), moved)
    if likeness < max(value + CLEARLY_BETTER, 2 * MIN_CORRELATION):
        return found
    return replace(found, better=_compared(how, likeness, value), is_moved=how == moved[1])


def _compared(how: str, likeness: float, value: float) -> str:
    """The better order or shift, with both correlations."""
    return f"{how} (correlation {likeness:.2f} instead of {value:.2f})"


def _likeness_of_reversed_halves(
    spikes: PackedSpikes, start: int, window: int, reference: NDArray[np.float32]
) -> float:
    """The correlation of a window with the bits of each half byte reversed; 0 for odd widths."""
    if spikes.columns % 4:
        return 0.0
    # Reversing the lowest two bits of a column's number reverses four columns.
    columns = np.arange(spikes.columns) ^ 3
    seen = spikes.picture(start, start + window)[:, columns]
    return correlation(band_pass(seen), reference)


def correlation_curve(
    spikes: PackedSpikes, gray: NDArray[np.generic], window: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How much the spikes look like a frame, instant by instant.

    Args:
        spikes: as for :func:`align`.
        gray: as there.
        window: steps that are averaged; None is as many as there, for a sharp frame.

    Returns:
        the centres of the windows (steps), and the correlation in each (-1 to 1).

    Raises:
        DataError: as there.
    """
    window = window or _window(spikes)
    reference = band_pass(_picture(spikes, gray))
    starts = range(len(spikes) - window + 1)
    curve = np.array([_likeness(spikes, start, window, reference) for start in starts])
    return np.arange(len(curve), dtype=np.float64) + (window - 1) / 2, curve


def misplacement(
    spikes: PackedSpikes, gray: NDArray[np.generic], exposure: Exposure
) -> float | None:
    """Steps from where an exposure should be to where its blurry frame is most like the spikes.

    Args:
        spikes: of the exposure, and what was recorded before and after it.
        gray: the blurry frame.
        exposure: in steps of these spikes.

    Returns:
        None where nothing tells, as in a still scene.
    """
    _, curve = correlation_curve(spikes, gray, exposure.steps)
    place, value = find_peak(curve)
    tells = value >= MIN_CORRELATION and value - curve.min() >= MIN_DISTINCTION
    return place - exposure.start if tells else None


def _window(spikes: PackedSpikes) -> int:
    return max(1, min(WINDOW, len(spikes) // 2))


def _likeness(spikes: PackedSpikes, start: int, window: int, image: NDArray[np.float32]) -> float:
    """Correlation of the mean of a window with a band-passed picture of any size."""
    seen = shrink(spikes.picture(start, start + window), *image.shape)
    return correlation(band_pass(seen), image)


def _picture(spikes: PackedSpikes, gray: NDArray[np.generic]) -> NDArray[np.float32]:
    """The frame at the sensor's size, from 0 to 1."""
    _, height, width = spikes.shape
    frame_scale((gray.shape[0], gray.shape[1]), (height, width))
    return shrink(gray, height, width).astype(np.float32) / np.float32(255)


def _search(
    spikes: PackedSpikes, picture: NDArray[np.float32], window: int
) -> tuple[float, float, float]:
    """The place and correlation of the most similar window, and the lowest correlation.

    Of large sensors a third of the windows is looked at, in small pictures of some rows.
    """
    some, step = spikes.sampled, spikes.row_step
    small = band_pass(shrink(picture[::step], some.shape[1], max(1, some.columns // step)))
    stride = 1 if step == 1 else max(1, window // 3)
    starts = range(0, len(spikes) - window + 1, stride)
    curve = np.array([_likeness(some, start, window, small) for start in starts])
    place = stride * find_peak(curve, max(1, _FIT_RADIUS // stride))[0]
    reference = band_pass(picture)
    ends = (round(place), starts[curve.argmin()])
    best, least = (_likeness(spikes, start, window, reference) for start in ends)
    return place, best, least


def _misread(spikes: PackedSpikes, picture: NDArray[np.float32], window: int) -> tuple[float, str]:
    """How well spikes fit in another order, and what that is and what to do.

    Args:
        spikes: as for :func:`align`.
        picture: the frame at their size.
        window: steps that are averaged.
    """
    # Mirrored spikes are as like the frame as the spikes are like the mirrored frame.
    tried = [
        (picture[:, ::-1], "mirrored from right to left: write the left column first"),
        (picture[::-1], "upside down: write the bottom row first"),
        (picture[::-1, ::-1], "turned by 180 degrees: write bottom row first, from left"),
    ]
    results = [(_search(spikes, turned, window)[1], how) for turned, how in tried]
    for mask, how in _BIT_ORDERS.items():
        # One at a time and never kept: each takes as much memory as the spikes.
        likeness = _search(_with_bits_moved(spikes, mask), picture, window)[1]
        results.append((likeness, f"with {how}"))
    return max(results)


def _with_bits_moved(spikes: PackedSpikes, mask: int) -> PackedSpikes:
    """Spikes with bit b of each byte in place b ^ mask."""
    byte = np.arange(256)
    moved = [(byte >> bit & 1) << (bit ^ mask) for bit in range(8)]
    table = np.sum(moved, axis=0).astype(np.uint8)
    return PackedSpikes(table[spikes.rows], spikes.columns)


def _moved(spikes: PackedSpikes, reference: NDArray[np.float32], window: int) -> tuple[float, str]:
    """As :func:`_misread`, of a shift in space, in the middle of the steps."""
    height, width = reference.shape
    rows, columns = height // MOST_SHIFT, width // MOST_SHIFT
    inner = reference[rows : height - rows, columns : width - columns]
    start = (len(spikes) - window) // 2
    picture = band_pass(spikes.picture(start, start + window))
    near = cv2.matchTemplate(picture, inner, cv2.TM_CCORR_NORMED)
    down, right = divmod(int(near.argmax()), near.shape[1])
    return float(near.max()), (
        f"moved by {rows - down} rows down and {columns - right} columns to the right: sensor and "
        "frames have to show the same part of the scene; vrtspike calibrate finds how they lie"
    )


def mismatch(
    found: Alignment, spikes: Path | str, frame: Path | str, sensor: tuple[int, ...]
) -> str | None:
    """What may be wrong with spikes that do not show their frame; None if they do."""
    if found.better:
        return f"{spikes}: the spikes would fit {frame} better {found.better}"
    if found.matches:
        return None
    return (
        f"{spikes}: the spikes do not show {frame} (correlation {found.correlation:.2f} at "
        f"best, {MIN_CORRELATION} needed), in no order of bits, rows and columns: another frame's "
        f"file or exposure, or a wrong sensor size ({sensor[0]} x {sensor[1]})"
    )


def band_pass(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """A picture (H, W) without the noise of single pixels and without what all pictures share."""
    height, width = image.shape
    fine = cv2.GaussianBlur(image, (0, 0), FINE_SIGMA)
    # At half the size two boxes stand for a Gaussian of sigma 9: 4 (side^2 - 1) / 12 each.
    half = cv2.resize(fine, (-(-width // 2), -(-height // 2)), interpolation=cv2.INTER_AREA)
    coarse = cv2.blur(cv2.blur(half, (_BOX, _BOX)), (_BOX, _BOX))
    return np.asarray(cv2.subtract(fine, cv2.resize(coarse, (width, height))), np.float32)


def correlation(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Of two pictures without a mean, -1 to 1; a flat one (norm 0 up to rounding) is like none."""
    size = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(np.vdot(one, other)) / size if size > 1e-6 else 0.0


def find_peak(curve: NDArray[np.float64], radius: int = _FIT_RADIUS) -> tuple[float, float]:
    """Place and height of the maximum, the place refined by a parabola through its surroundings."""
    top = int(curve.argmax())
    first, last = max(0, top - radius), min(len(curve) - 1, top + radius)
    value = float(curve[top])
    if last - first < 2:
        return float(top), value
    x = np.arange(first, last + 1) - top
    a, b, _ = np.polyfit(x, curve[first : last + 1], 2)
    if a >= 0:
        return float(top), value
    return float(np.clip(top - b / (2 * a), first, last)), value


def disorder(spikes: PackedSpikes) -> float | None:
    """Where the number of successive spikes lies between perfect regularity (0) and chance (1).

    None where there are too few spikes to tell.
    """
    steps, rows = len(spikes), spikes.sampled.rows
    count = spikes.sampled.picture().astype(np.int64)
    pairs = int.from_bytes((rows[1:] & rows[:-1]).tobytes()).bit_count()
    by_chance = float((count * (count - 1)).sum()) / steps
    # Even a regular pixel must repeat itself when it fires in more than half of all steps.
    regular = float(np.maximum(2 * count - steps, 0).sum())
    if by_chance - regular < MIN_PAIRS:
        return None
    return (pairs - regular) / (by_chance - regular)


def order_fault(spikes: PackedSpikes, name: str) -> str | None:
    """What is wrong with spikes whose steps are shuffled; None with others."""
    found = disorder(spikes)
    if found is None or found <= MOST_DISORDER:
        return None
    return (
        f"{name}: the spikes follow each other as by chance ({found:.2f} of it; an integrating "
        "sensor stays near 0): the steps are shuffled, or the sensor has another size"
    )
