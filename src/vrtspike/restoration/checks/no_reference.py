"""Metrics of a restored frame without a sharp one: agreement with its blurry frame and spikes.

This module has three metrics of its own, and those of :func:`load_no_reference`. Each is also
measured on the blurry frame, which a restored one has to exceed:

- **re-blur**: a blurry frame is the mean of the light while the shutter was open, and the spikes
  measure the difference of this mean from the sharp instant. The restored frame with this
  difference added is the blurry frame again; dB of luma, smoothed because few spikes are noisy.
- **agreement**: correlation of the restored frame with the spikes in a short window about the sharp
  instant, both band-passed as in the check of raw data; and in windows outside the shutter, which a
  restored frame of the right instant resembles less.
- **unseen agreement** (:func:`unseen_agreement`): correlation with spikes outside the input of the
  model, square by square. Each square is moved to its best match, because the scene has moved by
  then.

The first two use spikes that the model has seen, so noise of these spikes in the restored frame
raises them, and not the third.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.config.tasks import Metric
from vrtspike.data.checks.alignment import WINDOW, correlation_curve
from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.rgb_images import Image
from vrtspike.data.spike_reconstruction import tfp
from vrtspike.data.voxels.gain import GainEstimator
from vrtspike.io.images import luma, shrink
from vrtspike.restoration.inputs.clip_spikes import FrameSpikes
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.system.errors import ConfigError, DataError

REBLUR = Metric(
    "reblur",
    "Blurred again",
    "PSNR between the blurry frame and the restored one, blurred again as the spikes measure",
    unit="dB",
    decimals=2,
)
AGREEMENT = Metric(
    "agreement",
    "Correlation with the spikes",
    "correlation with the spikes around the sharp instant, from -1 to 1",
    decimals=3,
)
AGREEMENT_OUTSIDE = Metric(
    "agreement_outside",
    "Correlation with the spikes outside the open shutter",
    "mean correlation with the spikes before and after the exposure, from -1 to 1",
    decimals=3,
    larger_is_better=False,
)
UNSEEN = Metric(
    "unseen",
    "Agreement with unseen spikes",
    "correlation with spikes outside the exposure, which the model has not read, from -1 to 1",
    decimals=3,
)

SMOOTHING = 2.0
"""Standard deviation, in spike pixels, of the Gaussian that smooths re-blurred frames."""
BEYOND = 64
"""Maximum steps before and after the open shutter that a frame is compared with."""
MAX_UNSEEN = 16
"""Maximum steps of a window of spikes that the model has not seen."""
_UNSEEN_SHARE = 5
"""Minimum length of an exposure in windows of unseen spikes: longer windows would be blurred."""
UNSEEN_SQUARE = 20
"""Side of the squares that are compared with unseen spikes, in spike pixels."""
REACH = 20
"""Largest displacement of a square, in spike pixels."""
_BAND = (0.7, 4.0)
"""Standard deviations of the Gaussians of the band-pass filter, in spike pixels."""


def no_reference_metrics(
    spikes: FrameSpikes, blur: Image, restored: Image
) -> dict[str, float | None]:
    """Return the metrics of one frame.

    Args:
        spikes: spikes of this frame.
        blur, restored: uint8 (H, W, 3).

    Returns:
        dB and correlations from -1 to 1, of the restored frame and (``_blur``) of the blurry one;
        empty for an exposure that is too short for a window or without a single spike.
        ``agreement_outside`` is None if nothing outside the shutter was recorded.
    """
    measurement = _measurement(spikes, blur)
    if measurement is None:
        return {}
    recorded, inner, difference = measurement
    agreement, outside = _agreement(recorded, inner, restored)
    return {
        "reblur_blur": _decibels(_residual(blur, blur, difference)),
        "reblur": _decibels(_residual(blur, restored, difference)),
        "agreement_blur": _agreement(recorded, inner, blur)[0],
        "agreement": agreement,
        "agreement_outside": outside,
    }


def reblur_residual(
    spikes: FrameSpikes, blur: Image, restored: Image
) -> NDArray[np.float32] | None:
    """Return the difference of the restored frame, blurred again, from the blurry one.

    Args:
        spikes: spikes of this frame.
        blur, restored: uint8 (H, W, 3).

    Returns:
        luma (h, w) of 255, of the sensor's size, smoothed as for the metric ``reblur``; None where
        :func:`no_reference_metrics` has none.
    """
    measurement = _measurement(spikes, blur)
    if measurement is None:
        return None
    return _residual(blur, restored, measurement[2])


def _measurement(
    spikes: FrameSpikes, blur: Image
) -> tuple[PackedSpikes, Exposure, NDArray[np.float32]] | None:
    """Return spikes about an exposure, the exposure in their steps, and the measured difference.

    The difference is the brightness (h, w), of 255, by which the blurry frame exceeds the sharp
    instant. None if the exposure is too short for a window or without a single spike.
    """
    recorded, exposure = spikes.around(BEYOND)
    if exposure.steps < WINDOW or len(recorded) < 2 * WINDOW:
        return None
    whole = np.stack([recorded[step] for step in range(len(recorded))])
    total = whole[exposure.start : exposure.stop].sum(axis=0, dtype=np.int64)
    meter = GainEstimator()
    meter.update(blur, total, exposure.steps)
    try:
        gain = meter.gain("the exposure")
    except DataError:  # without a single spike
        return None
    instant = tfp(whole, int(exposure.sharp), 2 * WINDOW)
    difference = 255 * gain * (total / exposure.steps - instant)
    return recorded, exposure, difference.astype(np.float32)


def _residual(blur: Image, restored: Image, difference: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the error (h, w) of the restored frame, blurred again, against the blurry frame."""
    size = difference.shape
    error = shrink(luma(restored), *size) + difference - shrink(luma(blur), *size)
    return np.asarray(cv2.GaussianBlur(error, (0, 0), SMOOTHING), np.float32)


def _decibels(residual: NDArray[np.float32]) -> float:
    """Return the PSNR of a residual."""
    return float(10 * np.log10(255**2 / max(float(np.square(residual).mean()), 1e-6)))


def _agreement(
    spikes: PackedSpikes, exposure: Exposure, frame: Image
) -> tuple[float, float | None]:
    """Return the correlation at the sharp instant, and its mean outside the shutter, if any."""
    centers, curve = correlation_curve(spikes, luma(frame))
    half = WINDOW / 2
    outside = (centers + half <= exposure.start) | (centers - half >= exposure.stop)
    inside = float(np.interp(exposure.sharp, centers, curve))
    if not outside.any():
        return inside, None
    return inside, float(curve[outside].mean())


def unseen_agreement(clip: InputClip, index: int, frames: Sequence[Image]) -> list[float] | None:
    """Return agreement of pictures of one frame with spikes that the model has not seen.

    The mean over squares of the sensor of the largest correlation with the spikes of
    up to :data:`MAX_UNSEEN` steps, band-passed, among displacements of up to :data:`REACH` pixels.

    Args:
        clip: clip with recorded spikes.
        index: number of the frame.
        frames: uint8 (H, W, 3), such as the blurry frame and the restored one.

    Returns:
        from -1 to 1, of each frame; None if the model has seen everything that was recorded, the
        unseen windows are without a spike, or the sensor is too small.
    """
    if clip.spikes is None:
        return None
    spikes = clip.spikes.frames[index]
    pictures = []
    for window in _unseen_windows(clip, index):
        picture = spikes.read(window).count_image()
        if picture.any():
            pictures.append(picture)
    if not pictures or min(pictures[0].shape) < UNSEEN_SQUARE + 2 * REACH:
        return None
    agreements = []
    for frame in frames:
        gray = shrink(luma(frame), *pictures[0].shape)
        agreements.append(
            float(np.mean([_best_correlation(gray, picture) for picture in pictures]))
        )
    return agreements


def _unseen_windows(clip: InputClip, index: int) -> list[Exposure]:
    """Return windows next to the model's input of a frame that are in no frame's input."""
    if clip.spikes is None:
        return []
    spikes = clip.spikes.frames[index]
    if spikes.recording is None:
        return []
    starts, stops = clip.spikes.exposures[spikes.recording]
    context = clip.options.context
    frame_input = spikes.exposure.widened(context, spikes.total)
    steps = min(MAX_UNSEEN, max(1, spikes.exposure.steps // _UNSEEN_SHARE))
    windows = []
    for start in (frame_input.start - steps, frame_input.stop):
        stop = start + steps
        is_recorded = start >= 0 and stop <= spikes.total
        # The model also reads the context of every exposure.
        is_seen = ((starts < stop + context) & (stops > start - context)).any()
        if is_recorded and not is_seen:
            windows.append(Exposure(start, stop, start + steps / 2))
    return windows


def _best_correlation(gray: NDArray[np.float32], picture: NDArray[np.float32]) -> float:
    """Return the mean over squares of the largest correlation among displacements."""
    frame = _band_passed(gray)
    spikes = _band_passed(picture)
    height, width = frame.shape
    peaks = []
    for top in range(REACH, height - UNSEEN_SQUARE - REACH + 1, UNSEEN_SQUARE):
        for left in range(REACH, width - UNSEEN_SQUARE - REACH + 1, UNSEEN_SQUARE):
            square = frame[top : top + UNSEEN_SQUARE, left : left + UNSEEN_SQUARE]
            bottom = top + UNSEEN_SQUARE + REACH
            right = left + UNSEEN_SQUARE + REACH
            area = spikes[top - REACH : bottom, left - REACH : right]
            if square.std() > 0 and area.std() > 0:
                peaks.append(cv2.matchTemplate(area, square, cv2.TM_CCOEFF_NORMED).max())
    return float(np.mean(peaks)) if peaks else 0.0


def _band_passed(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the details of a picture with a size of about one to four pixels."""
    values = picture.astype(np.float32)
    fine = cv2.GaussianBlur(values, (0, 0), _BAND[0])
    return (fine - cv2.GaussianBlur(values, (0, 0), _BAND[1])).astype(np.float32)


def load_no_reference(name: str) -> Callable[[Image], float]:
    """Return a metric of a frame alone, uint8 (H, W, 3), computed on the CPU.

    Args:
        name: its name in pyiqa. ``piqe`` needs no weights; pyiqa downloads those of others.

    Raises:
        ConfigError: if pyiqa has no such metric, or cannot get its weights.
    """
    import pyiqa
    import torch

    names = pyiqa.list_models(metric_mode="NR")
    if name not in names:
        raise ConfigError(f"no-reference metric: found {name}, expected one of {', '.join(names)}")
    try:
        metric = pyiqa.create_metric(name, device="cpu")
    except OSError as error:
        raise ConfigError(
            f"no-reference metric {name}: its weights cannot be downloaded ({error})"
        ) from error

    def score(image: Image) -> float:
        pixels = torch.from_numpy(np.ascontiguousarray(image)).movedim(-1, 0)[None] / 255
        return float(metric(pixels))

    return score
