"""Pictures from spikes alone: the baseline that restored frames are compared with.

A classical reconstruction (:mod:`vrtspike.data.spike_reconstruction`) at the sharp instant of each
exposure, from the spikes of that exposure without the stored context. The brightness of the picture
is the spike rate times the gain of the sequence, which is fitted to the blurry frames by least
squares (:mod:`vrtspike.data.voxels.gain`), without any sharp frame. Spikes have no colour and
fewer pixels: for metrics the picture is enlarged to the frame by bicubic interpolation and compared
with the luma of the sharp frame, both as grey RGB images.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.rgb_images import PEAK, Image
from vrtspike.data.spike_reconstruction import short_window, tfi, tfp, window_about
from vrtspike.data.store.reading import Store
from vrtspike.data.voxels.gain import GainEstimator
from vrtspike.deblurring_settings.evaluation import SpikesAloneName
from vrtspike.io.images import luma

Reconstruction = Callable[[NDArray[np.uint8], Exposure], NDArray[np.float32]]
"""Maps spikes (T, h, w) and the exposure among them to the spike rate (h, w) at its instant."""

RECONSTRUCTIONS: dict[SpikesAloneName, Reconstruction] = {
    "tfp": lambda spikes, exposure: tfp(spikes, int(exposure.sharp), short_window(exposure.steps)),
    "tfi": lambda spikes, exposure: tfi(spikes, int(exposure.sharp)),
}
_METHODS: dict[SpikesAloneName, str] = {
    "tfp": "spikes in a window of 3/8 of the exposure about the sharp instant (TFP)",
    "tfi": "the interval between the spikes about the sharp instant (TFI)",
}


def definition(method: SpikesAloneName) -> str:
    """Return the definition of a classical reconstruction and of its metrics, in words."""
    return (
        f"spikes alone: {_METHODS[method]}, Zhu et al. 2019; brightness by least squares to the "
        "blurry frames; enlarged by bicubic interpolation and compared with the sharp frame in "
        "grey (BT.601), because spikes have no colour: only metrics of Y and of motion set it "
        "beside the restored frames exactly"
    )


def spikes_alone(store: Store, rate: Reconstruction, frame: int) -> NDArray[np.float32]:
    """Reconstruct one frame of a sequence from its spikes.

    Args:
        store: store of a sequence with spikes.
        rate: the classical reconstruction, such as one of :data:`RECONSTRUCTIONS`.
        frame: its number.

    Returns:
        grey values (h, w) of the sensor's size, nominally in [0, 255].
    """
    metadata = store.metadata
    whole = slice(None)
    assert metadata.spike_size is not None
    assert store.gain is not None
    exposure = metadata.exposures[frame]
    recorded = store.read("bits", slice(frame, frame + 1), whole, whole)[0]
    bits = recorded[exposure.start : exposure.stop]
    spikes = np.unpackbits(bits, axis=2, count=metadata.spike_size[1], bitorder="little")
    return rate(spikes, exposure.moved(-exposure.start)) * np.float32(PEAK * store.gain)


def to_picture(gray: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Convert grey values (h, w) to an 8-bit picture of the same size."""
    return np.rint(gray).clip(0, PEAK).astype(np.uint8)


def gray_pair(gray: NDArray[np.float32], sharp: Image) -> tuple[Image, Image]:
    """Return the two images that metrics compare, uint8 (H, W, 3) with three equal channels.

    Args:
        gray: grey values (h, w), nominally in [0, 255].
        sharp: the sharp frame.

    Returns:
        the grey values enlarged to the frame, and the luma of the sharp frame.
    """
    height, width = sharp.shape[:2]
    enlarged = cv2.resize(gray, (width, height), interpolation=cv2.INTER_CUBIC)
    picture = to_picture(np.asarray(enlarged, np.float32))
    truth = luma(sharp).astype(np.uint8)
    return np.repeat(picture[..., None], 3, axis=-1), np.repeat(truth[..., None], 3, axis=-1)


def instant_picture(
    spikes: PackedSpikes, exposure: Exposure, blurry: Image, location: str
) -> NDArray[np.uint8]:
    """Return the spikes in a short window about the sharp instant as a picture.

    The brightness of a spike is fitted to the blurry frame by least squares.

    Args:
        spikes: of the recording, (T, h, w).
        exposure: in its steps.
        blurry: the blurry frame, uint8 (H, W, 3).
        location: name of the spikes for messages.

    Returns:
        uint8 (h, w).
    """
    meter = GainEstimator()
    meter.update(blurry, spikes.count_image(exposure.start, exposure.stop), exposure.steps)
    window = short_window(exposure.steps)
    start, stop = window_about(int(exposure.sharp), window, exposure.start, exposure.stop)
    rate = spikes.count_image(start, stop) / np.float32(stop - start)
    return to_picture(rate * np.float32(PEAK * meter.gain(location)))
