"""How well a frame is restored, as far as its blurry frame and its spikes tell: no sharp frame.

Two figures, each also of the blurry frame itself, which a restored one has to exceed, and those of
:func:`load_no_reference`:

- **re-blur**: a blurry frame is the mean of what was seen while the shutter was open, and the
  spikes measure by how much that mean differs from the sharp instant. The restored frame with this
  difference added is the blurry frame again; dB of luma, smoothed because few spikes are noisy.
- **agreement**: correlation of the restored frame with the spikes in a short window about the sharp
  instant, both band-passed, as the check of raw data does it; and in windows outside the shutter,
  which a restored frame of the right instant resembles less.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.exposure import Exposure
from vrtspike.deblurring.data.gate.alignment import WINDOW, correlation_curve
from vrtspike.deblurring.data.raw.spikes import PackedSpikes
from vrtspike.deblurring.data.store.voxels import GainMeter
from vrtspike.deblurring.evaluation.given_clips import FrameSpikes
from vrtspike.deblurring.rgb_images import Image
from vrtspike.deblurring.spike_images import tfp
from vrtspike.io.images import luma, shrink
from vrtspike.system.errors import ConfigError, DataError

SMOOTHING = 2.0
"""Standard deviation of the Gaussian that re-blurred frames are compared after, in spike pixels."""
BEYOND = 64
"""Most steps before and after the open shutter that a frame is compared with."""


def no_reference_figures(
    spikes: FrameSpikes, blur: Image, restored: Image
) -> dict[str, float | None]:
    """The figures of one frame.

    Args:
        spikes: its own.
        blur: uint8 (H, W, 3).
        restored: likewise.

    Returns:
        dB and correlations from -1 to 1, of the restored frame and (``_blur``) of the blurry one;
        none of an exposure that is too short for a window or too dark for a single spike.
        ``agreement_outside`` is None where nothing outside the shutter was recorded.
    """
    recorded, inner = spikes.around(BEYOND)
    if inner.steps < WINDOW or len(recorded) < 2 * WINDOW:
        return {}
    whole = np.stack([recorded[step] for step in range(len(recorded))])
    try:
        difference = _difference(whole, inner, blur)
    except DataError:  # nothing says how bright a spike is
        return {}
    agreement, outside = _agreement(recorded, inner, restored)
    return {
        "reblur_blur": _reblur(blur, blur, difference),
        "reblur": _reblur(blur, restored, difference),
        "agreement_blur": _agreement(recorded, inner, blur)[0],
        "agreement": agreement,
        "agreement_outside": outside,
    }


def _difference(spikes: NDArray[np.uint8], exposure: Exposure, blur: Image) -> NDArray[np.float32]:
    """Brightness (h, w), of 255, by which the blurry frame exceeds the sharp instant."""
    total = spikes[exposure.start : exposure.stop].sum(axis=0, dtype=np.int64)
    meter = GainMeter()
    meter.add(blur, total, exposure.steps)
    instant = tfp(spikes, int(exposure.sharp), 2 * WINDOW)
    rates = total / exposure.steps - instant
    return (255 * meter.gain("the exposure") * rates).astype(np.float32)


def _reblur(blur: Image, restored: Image, difference: NDArray[np.float32]) -> float:
    """PSNR of the restored frame with the difference added against the blurry frame."""
    size = difference.shape
    error = shrink(luma(restored), *size) + difference - shrink(luma(blur), *size)
    smooth = cv2.GaussianBlur(error, (0, 0), SMOOTHING)
    return float(10 * np.log10(255**2 / max(float(np.square(smooth).mean()), 1e-6)))


def _agreement(
    spikes: PackedSpikes, exposure: Exposure, frame: Image
) -> tuple[float, float | None]:
    """Correlation at the sharp instant, and the mean of it in windows outside the shutter."""
    centres, curve = correlation_curve(spikes, luma(frame))
    half = WINDOW / 2
    outside = (centres + half <= exposure.start) | (centres - half >= exposure.stop)
    inside = float(np.interp(exposure.sharp, centres, curve))
    return inside, float(curve[outside].mean()) if outside.any() else None


def load_no_reference(name: str) -> Callable[[Image], float]:
    """A metric of a frame alone, uint8 (H, W, 3), computed on the CPU.

    Args:
        name: as pyiqa has it: ``piqe`` needs no weights, pyiqa downloads those of others.

    Raises:
        ConfigError: if pyiqa has no such metric, or cannot get its weights.
    """
    import pyiqa
    import torch

    known = pyiqa.list_models(metric_mode="NR")
    if name not in known:
        raise ConfigError(f"--no-reference: found {name}, expected one of {', '.join(known)}")
    try:
        metric = pyiqa.create_metric(name, device="cpu")
    except OSError as error:
        raise ConfigError(f"--no-reference {name}: its weights cannot be had ({error})") from error

    def score(image: Image) -> float:
        pixels = torch.from_numpy(np.ascontiguousarray(image)).movedim(-1, 0)[None] / 255
        return float(metric(pixels))

    return score
