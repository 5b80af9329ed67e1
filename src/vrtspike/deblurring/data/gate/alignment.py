"""Do these spikes belong to this sharp frame, and where in them does it lie?

A short window slides over the spikes; its mean is an image of that instant. Where this image is
most like the sharp frame lies the centre of the exposure. Both are band-passed first, which removes
the brightness that all pictures share and the pixel noise of counting a few spikes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.raw.spikes import Steps
from vrtspike.errors import DataError
from vrtspike.images import shrink

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
        return (
            self.assessable
            and self.correlation >= MIN_CORRELATION
            and self.distinction >= MIN_DISTINCTION
        )


def center_tolerance(spike_frames: int) -> float:
    """Steps by which a sequence's median centre may miss the expected one: T / 8, at least 4.

    Cameras whose sharp frame lies at T / 2 (4 steps later) pass; spikes shifted by two source
    frames do not.

    >>> center_tolerance(88)
    11.0
    """
    return max(4.0, spike_frames / 8)


def exposure_center(spikes: Steps, sharp_gray: NDArray[np.generic]) -> tuple[float, float]:
    """Find the step of the spikes at which a sharp frame was taken.

    Args:
        spikes: uint8 (T, h, w) of 0 and 1, or packed ones.
        sharp_gray: grey frame (H, W), H x W the spikes' size times a whole number; values 0 to 255.

    Returns:
        The step (a fraction from 0 to T - 1) and the normalised correlation there (-1 to 1; near 0
        means that the spikes show something else).

    Raises:
        DataError: if the shapes do not fit together or there are fewer than 2 spike frames.
    """
    found = align(spikes, sharp_gray)
    return found.center, found.correlation


def align(spikes: Steps, gray: NDArray[np.generic], *, blurry: bool = False) -> Alignment:
    """Like :func:`exposure_center`, with all that is needed to judge the result.

    Args:
        spikes: as there.
        gray: as there; the blurry frame with ``blurry``.
        blurry: compare with the mean of the whole exposure instead of single instants; the centre
            then says nothing.

    Raises:
        DataError: as there.
    """
    frames, height, width = _check_shapes(spikes, gray)
    reference = _band_pass(shrink(gray, height, width) / np.float32(255))
    texture = float(reference.std())
    window = frames if blurry else max(1, min(WINDOW, frames // 2))
    curve = _correlations(spikes, reference, window)
    peak, value = _peak(curve)
    return Alignment(
        center=peak + (window - 1) / 2,
        correlation=value,
        texture=texture,
        distinction=float(curve.max() - curve.min()),
        assessable=texture >= MIN_TEXTURE and min(height, width) >= MIN_SIDE,
    )


def correlation_curve(
    spikes: Steps, gray: NDArray[np.generic]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How much the spikes look like a sharp frame, instant by instant.

    Args:
        spikes: as for :func:`exposure_center`.
        gray: as there.

    Returns:
        the centres of the windows (steps), and the correlation in each (-1 to 1).

    Raises:
        DataError: as there.
    """
    frames, height, width = _check_shapes(spikes, gray)
    window = max(1, min(WINDOW, frames // 2))
    curve = _correlations(spikes, _band_pass(shrink(gray, height, width) / np.float32(255)), window)
    return np.arange(len(curve), dtype=np.float64) + (window - 1) / 2, curve


def require_match(
    found: Alignment, spikes: Path | str, frame: Path | str, sensor: tuple[int, int]
) -> None:
    """Refuse spikes that do not show their frame.

    Raises:
        DataError: naming both files and what may be wrong.
    """
    fault = mismatch(found, spikes, frame, sensor)
    if fault is not None:
        raise DataError(fault)


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


def _check_shapes(spikes: Steps, sharp_gray: NDArray[np.generic]) -> tuple[int, int, int]:
    if len(spikes.shape) != 3 or sharp_gray.ndim != 2:
        raise DataError(
            f"spikes {spikes.shape} and frame {sharp_gray.shape}: (T, h, w) and (H, W) expected"
        )
    frames, height, width = spikes.shape
    if frames < 2:
        raise DataError("at least 2 spike frames are needed to look for the exposure centre")
    rows, columns = sharp_gray.shape
    if rows % height or columns % width or rows // height != columns // width:
        raise DataError(
            f"a sharp frame of {rows} x {columns} does not cover spikes of {height} x {width}: its "
            "sides must be the sensor's times the same whole number; check the sensor size"
        )
    return frames, height, width


def _band_pass(image: NDArray[np.float32]) -> NDArray[np.float32]:
    fine = cv2.GaussianBlur(image, (0, 0), FINE_SIGMA)
    # Two boxes stand for a Gaussian of sigma 8 at a tenth of its cost: (side^2 - 1) / 12 each.
    coarse = cv2.blur(cv2.blur(fine, (_BOX, _BOX)), (_BOX, _BOX))
    return np.asarray(fine - coarse, dtype=np.float32)


def _correlations(
    spikes: Steps, reference: NDArray[np.float32], window: int
) -> NDArray[np.float64]:
    """Correlation of every window's mean with the reference: (T - window + 1,)."""
    scale = float(np.linalg.norm(reference))
    total = np.zeros(reference.shape, np.int32)
    for step in range(window - 1):
        total += spikes[step]
    curve = np.zeros(len(spikes) - window + 1)
    for start in range(len(curve)):
        total += spikes[start + window - 1]
        image = _band_pass(total.astype(np.float32))
        size = float(np.linalg.norm(image)) * scale
        # A flat picture (norm 0 up to rounding) is like nothing.
        curve[start] = float(np.vdot(image, reference)) / size if size > 1e-6 else 0.0
        total -= spikes[start]
    return curve


def _peak(curve: NDArray[np.float64]) -> tuple[float, float]:
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
