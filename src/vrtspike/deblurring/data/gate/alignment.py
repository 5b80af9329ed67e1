"""Do these spikes belong to this sharp frame, where in them does it lie, and are they in order?

A short window slides over the spikes; its mean is an image of that instant. Where this image is
most like the sharp frame lies the centre of the exposure. Both are band-passed first, which removes
the brightness that all pictures share and the pixel noise of counting a few spikes.

A pixel of an integrating sensor gathers light between two spikes, so at a rate below 1/2 it hardly
ever fires twice in a row. Shuffled steps lose that: pairs of successive spikes become as frequent
as chance makes them. (Real recordings: 0.000 of that frequency; the same shuffled: 0.99 to 1.03.)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.raw.spikes import PackedSpikes, frame_scale
from vrtspike.errors import DataError
from vrtspike.io.images import shrink

WINDOW = 9
"""Spike frames averaged for the image of one instant (fewer in files shorter than 18)."""

FINE_SIGMA = 1.0
_BOX = 21

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

CENTER_PRECISION = 3.0
"""Steps by which the centre of one exposure may be missed; half a source frame less (a file cut by
eight steps) is 4."""

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
    texture: float
    """Contrast of the band-passed sharp frame, grey from 0 to 1."""
    distinction: float
    """Correlation at the peak less the lowest correlation of any window."""
    assessable: bool
    """Whether the frame is large and rich enough for a low correlation to mean anything."""

    @property
    def matches(self) -> bool:
        """False where the spikes show another scene; true also where nothing can be said."""
        return not self.assessable or self.correlation >= MIN_CORRELATION

    @property
    def locates(self) -> bool:
        """Whether the centre is meaningful: a match whose peak stands out."""
        return self.assessable and self.matches and self.distinction >= MIN_DISTINCTION


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
        gray: grey frame (H, W), see :func:`~vrtspike.deblurring.data.raw.spikes.frame_scale`;
            values 0 to 255; the blurry frame with ``blurry``.
        blurry: compare with the mean of the whole exposure instead of single instants; the centre
            then says nothing.

    Raises:
        DataError: if the shapes do not fit together or there are fewer than 2 spike frames.
    """
    window = len(spikes) if blurry else _window(spikes)
    reference, curve = _compare(spikes, gray, window)
    texture = float(reference.std())
    peak, value = find_peak(curve)
    return Alignment(
        center=peak + (window - 1) / 2,
        correlation=value,
        texture=texture,
        distinction=float(curve.max() - curve.min()),
        assessable=texture >= MIN_TEXTURE and min(reference.shape) >= MIN_SIDE,
    )


def correlation_curve(
    spikes: PackedSpikes, gray: NDArray[np.generic]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How much the spikes look like a sharp frame, instant by instant.

    Args:
        spikes: as for :func:`align`.
        gray: as there.

    Returns:
        the centres of the windows (steps), and the correlation in each (-1 to 1).

    Raises:
        DataError: as there.
    """
    window = _window(spikes)
    curve = _compare(spikes, gray, window)[1]
    return np.arange(len(curve), dtype=np.float64) + (window - 1) / 2, curve


def _window(spikes: PackedSpikes) -> int:
    return max(1, min(WINDOW, len(spikes) // 2))


def _compare(
    spikes: PackedSpikes, gray: NDArray[np.generic], window: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The band-passed frame at the sensor's size, and how much each window is like it."""
    frames, height, width = spikes.shape
    if frames < 2:
        raise DataError("at least 2 spike frames are needed to look for the exposure centre")
    frame_scale((gray.shape[0], gray.shape[1]), (height, width))
    reference = band_pass(shrink(gray, height, width) / np.float32(255))
    return reference, window_correlations(spikes, reference, window)


def mismatch(
    found: Alignment, spikes: Path | str, frame: Path | str, sensor: tuple[int, int]
) -> str | None:
    """What may be wrong with spikes that do not show their frame; None if they do."""
    if found.matches:
        return None
    return (
        f"{spikes}: the spikes do not show {frame} (correlation {found.correlation:.2f} at "
        f"best, {MIN_CORRELATION} needed): another frame's file, a wrong sensor size "
        f"({sensor[0]} x {sensor[1]}) or another bit order"
    )


def band_pass(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """A picture (H, W) without the noise of single pixels and without what all pictures share."""
    fine = cv2.GaussianBlur(image, (0, 0), FINE_SIGMA)
    # Two boxes stand for a Gaussian of sigma 8 at a tenth of its cost: (side^2 - 1) / 12 each.
    coarse = cv2.blur(cv2.blur(fine, (_BOX, _BOX)), (_BOX, _BOX))
    return np.asarray(fine - coarse, dtype=np.float32)


def window_correlations(
    spikes: PackedSpikes, reference: NDArray[np.float32], window: int
) -> NDArray[np.float64]:
    """Correlation of every window's mean with the reference: (T - window + 1,)."""
    scale = float(np.linalg.norm(reference))
    total = np.zeros(reference.shape, np.int32)
    for step in range(window - 1):
        total += spikes[step]
    curve = np.zeros(len(spikes) - window + 1)
    for start in range(len(curve)):
        total += spikes[start + window - 1]
        image = band_pass(total.astype(np.float32))
        size = float(np.linalg.norm(image)) * scale
        # A flat picture (norm 0 up to rounding) is like nothing.
        curve[start] = float(np.vdot(image, reference)) / size if size > 1e-6 else 0.0
        total -= spikes[start]
    return curve


def find_peak(curve: NDArray[np.float64]) -> tuple[float, float]:
    """Place and height of the maximum, the place refined by a parabola through its surroundings."""
    top = int(curve.argmax())
    first, last = max(0, top - _FIT_RADIUS), min(len(curve) - 1, top + _FIT_RADIUS)
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
    steps, rows = len(spikes), spikes.rows
    count = spikes.total()
    pairs = int.from_bytes((rows[1:] & rows[:-1]).tobytes()).bit_count()
    by_chance = float((count * (count - 1)).sum()) / steps
    # Even a regular pixel must repeat itself when it fires in more than half of all steps.
    regular = float(np.maximum(2 * count - steps, 0).sum())
    if by_chance - regular < MIN_PAIRS:
        return None
    return (pairs - regular) / (by_chance - regular)


def require_order(spikes: PackedSpikes, name: str) -> None:
    """Refuse spikes whose steps are shuffled.

    Raises:
        DataError: naming the file.
    """
    found = disorder(spikes)
    if found is not None and found > MOST_DISORDER:
        raise DataError(
            f"{name}: the spikes follow each other as by chance ({found:.2f} of it; an integrating "
            "sensor stays near 0): the steps of the file are shuffled"
        )
