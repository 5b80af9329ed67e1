"""Simulators: blur from sharp frames and spikes from frames.

For users without a spike camera, for the demo data and for tests. With the default arguments the
spikes follow the rule of the Spk-GoPro data set (spike rate = grey / 2, eight steps per 240 fps
frame, half the frames' resolution, no noise).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.exposure import STEPS_PER_FRAME
from vrtspike.deblurring.data.simulation.interpolation import Between, Interpolation, interpolate
from vrtspike.errors import DataError
from vrtspike.images import luma, shrink

THETA = 2.0


def synthesize_blur(
    frames: Sequence[NDArray[np.uint8]] | NDArray[np.uint8], gamma: float | None = None
) -> NDArray[np.uint8]:
    """Average successive sharp frames into one blurry frame.

    Args:
        frames: N frames uint8 (H, W, 3) or (H, W) of one exposure.
        gamma: None averages the gamma-coded values (GoPro's ``blur``); a number such as 2.2
            linearises with it, averages, and codes again (GoPro's ``blur_gamma``).

    Returns:
        uint8, the shape of one frame.

    Raises:
        DataError: if there are no frames or gamma is not positive.
    """
    if len(frames) == 0:
        raise DataError("no frames to make a blurry frame from")
    if gamma is not None and gamma <= 0:
        raise DataError(f"gamma {gamma}: a positive number expected")
    # One table lookup per frame instead of a power per pixel.
    coded = np.arange(256, dtype=np.float64) / 255
    table = (coded if gamma is None else coded**gamma).astype(np.float32)
    total = np.zeros(frames[0].shape, dtype=np.float32)
    for frame in frames:
        total += table[frame]
    mean = total / len(frames)
    if gamma is not None:
        mean = mean ** (1 / gamma)
    return np.rint(mean * 255).astype(np.uint8)


class SpikeSensor:
    """An integrate-and-fire sensor whose charge carries over from step to step.

    Per pixel: V is uniform in [0, theta) at the start; every step V += grey; where V >= theta the
    pixel spikes and V -= theta (the remainder stays). At most one spike per step.
    """

    def __init__(
        self, height: int, width: int, *, theta: float = THETA, noise: float = 0.0, seed: int = 0
    ) -> None:
        """Prepare a sensor.

        Args:
            height: rows.
            width: columns.
            theta: threshold, in units of full-scale grey.
            noise: standard deviation of the Gaussian noise added to the grey value of every step,
                as a share of full scale; 0 is a perfect sensor.
            seed: decides the initial charge and the noise.

        Raises:
            DataError: if theta is not positive or noise is negative.
        """
        if theta <= 0 or noise < 0:
            raise DataError(f"theta {theta} must be positive and noise {noise} not negative")
        self._theta = np.float32(theta)
        self._noise = np.float32(noise)
        self._random = np.random.default_rng(seed)
        self._charge = self._random.random((height, width), dtype=np.float32) * self._theta

    def step(self, gray: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Expose one step to grey (H, W) in [0, 1]; return where it spikes."""
        self._charge += gray
        if self._noise > 0:
            shape = self._charge.shape
            self._charge += self._noise * self._random.standard_normal(shape, dtype=np.float32)
        fired = self._charge >= self._theta
        self._charge -= self._theta * fired
        return fired


def stream_spikes(
    frames: Iterable[NDArray[np.uint8]],
    steps_per_frame: int = STEPS_PER_FRAME,
    theta: float = THETA,
    seed: int = 0,
    *,
    noise: float = 0.0,
    downscale: int = 2,
    interpolation: Interpolation = "linear",
) -> Iterator[NDArray[np.bool_]]:
    """Simulate spikes frame by frame, holding two frames in memory.

    Yields:
        bool (steps_per_frame, h, w) for each frame: the steps from this frame to just before the
        next one, with grey values interpolated in time. The last frame stands still.

    Raises:
        DataError: see :func:`simulate_spikes`.
    """
    if steps_per_frame < 1 or downscale < 1:
        raise DataError("steps per frame and downscale must be at least 1")
    sensor: SpikeSensor | None = None
    current: NDArray[np.float32] | None = None
    for frame in frames:
        following = _sensor_gray(frame, downscale)
        if sensor is None:
            height, width = following.shape
            sensor = SpikeSensor(height, width, theta=theta, noise=noise, seed=seed)
        if current is not None:
            yield _interval(sensor, interpolate(current, following, interpolation), steps_per_frame)
        current = following
    if sensor is not None and current is not None:
        yield _interval(sensor, interpolate(current, current, "linear"), steps_per_frame)


def simulate_spikes(
    frames: Iterable[NDArray[np.uint8]],
    steps_per_frame: int = STEPS_PER_FRAME,
    theta: float = THETA,
    seed: int = 0,
    *,
    noise: float = 0.0,
    downscale: int = 2,
    interpolation: Interpolation = "linear",
) -> NDArray[np.uint8]:
    """Simulate the spikes of an integrate-and-fire sensor that looks at a video.

    Frame i stands at step ``i * steps_per_frame``; grey values between frames are interpolated;
    after the last frame the scene stands still.

    Args:
        frames: N frames uint8 (H, W, 3) RGB or (H, W) grey, gamma-coded.
        steps_per_frame: spike steps from one frame to the next (8 at 240 frames a second).
        theta: threshold; the mean spike rate is grey / theta (grey from 0 to 1).
        seed: decides the initial charge of each pixel.
        noise: see :class:`SpikeSensor`.
        downscale: frame pixels per spike pixel along each side; 2 is Spk-GoPro's half resolution,
            1 keeps the frames' size.
        interpolation: what is seen between frames, see
            :mod:`vrtspike.deblurring.data.simulation.interpolation`.

    Returns:
        uint8 (N * steps_per_frame, H / downscale, W / downscale) of 0 and 1.

    Raises:
        DataError: if there are no frames, sizes do not divide, or an option is out of range.
    """
    parts = list(
        stream_spikes(
            frames,
            steps_per_frame,
            theta,
            seed,
            noise=noise,
            downscale=downscale,
            interpolation=interpolation,
        )
    )
    if not parts:
        raise DataError("no frames to simulate spikes from")
    return np.concatenate(parts).view(np.uint8)


def _sensor_gray(frame: NDArray[np.uint8], downscale: int) -> NDArray[np.float32]:
    """What a sensor pixel sees of a frame: grey (h, w) in [0, 1]."""
    height, width = frame.shape[:2]
    if height % downscale or width % downscale:
        raise DataError(
            f"frames of {height} x {width} cannot be reduced {downscale} times for the sensor: "
            f"both sides must be multiples of {downscale}"
        )
    gray = shrink(luma(frame), height // downscale, width // downscale)
    return gray / np.float32(255)


def _interval(sensor: SpikeSensor, between: Between, steps: int) -> NDArray[np.bool_]:
    """The steps from one frame up to the next one, which is excluded."""
    return np.stack([sensor.step(between(step / steps)) for step in range(steps)])
