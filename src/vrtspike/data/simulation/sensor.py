"""Simulators: blur from sharp frames and spikes from frames.

For users without a spike camera, for the demo data and for tests. With the default arguments the
spikes follow the rule of the Spk-GoPro data set (spike rate = grey / 2, eight steps per 240 fps
frame, half the frames' resolution, no noise).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.config.fields import Positive, key
from vrtspike.deblurring_settings.workflow_settings import SensorSettings
from vrtspike.io.images import luma, shrink
from vrtspike.system.errors import DataError

Frame = NDArray[np.uint8]
"""A picture (H, W, 3) RGB or (H, W) grey, gamma-coded."""
Gray = NDArray[np.float32]
"""The light on the sensor: (h, w) in [0, 1]."""
SpikeArray = NDArray[np.bool_]
"""Spikes of one step (h, w), or of several (T, h, w)."""

MIN_SIDE = 16
"""Smallest side that optical flow works on."""


def synthesize_blur(frames: Sequence[Frame] | Frame, gamma: float | None = None) -> Frame:
    """Average successive sharp frames into one blurry frame.

    Args:
        frames: N frames uint8 (H, W, 3) or (H, W) of one exposure.
        gamma: None averages the gamma-coded values (GoPro's ``blur``); a number such as 2.2
            linearises with it, averages, and codes again (GoPro's ``blur_gamma``).

    Returns:
        uint8, the shape of one frame.

    Raises:
        DataError: if gamma is not positive.
    """
    if gamma is not None and gamma <= 0:
        raise DataError(f"gamma {gamma}: a positive number expected")
    # A table replaces a power per pixel.
    coded = np.arange(256, dtype=np.float64) / 255
    table = (coded if gamma is None else coded**gamma).astype(np.float32)
    total = np.zeros(frames[0].shape, dtype=np.float32)
    for frame in frames:
        total += table[frame]
    mean = total / len(frames)
    if gamma is not None:
        mean = mean ** (1 / gamma)
    return np.rint(mean * 255).astype(np.uint8)


class SimulatedSensor(SensorSettings):
    """A simulated sensor of any number of pixels; the defaults are those of Spk-GoPro."""

    DOWNSCALE: Positive = key(
        "Frame size / sensor size along each side; 2: half as many rows and columns as the frames",
        2,
    )


SPK_GOPRO_SENSOR = SimulatedSensor()
_MIN_THETA_SHARE = 0.1
"""Minimum threshold of a pixel as a share of the sensor's, for any spread."""


def integrate_and_fire(pictures: Iterator[Gray], sensor: SensorSettings) -> Iterator[SpikeArray]:
    """Yield the spikes of an integrate-and-fire sensor, step by step.

    Per pixel: V is uniform in [0, theta) at the start; every step V += grey; where V >= theta the
    pixel spikes and V -= theta (the remainder stays). At most one spike per step.

    Args:
        pictures: its light in each step, grey (H, W) in [0, 1].
        sensor: its threshold, its faults and the seed of all draws.
    """
    first = next(pictures, None)
    if first is None:
        return
    shape = first.shape
    random = np.random.default_rng(sensor.SEED)
    phase = random.random(shape, dtype=np.float32)
    if sensor.START_PHASE is not None:
        phase[:] = sensor.START_PHASE
    theta = _thresholds(shape, sensor, random)
    charge = phase * theta
    late = np.zeros(shape, np.bool_)
    has_faulty_pixels = bool(sensor.HOT_PIXELS or sensor.DEAD_PIXELS)
    if has_faulty_pixels:
        draw = random.random(shape)
        hot = draw < sensor.HOT_PIXELS
        alive = draw <= 1 - sensor.DEAD_PIXELS
    for gray in itertools.chain([first], pictures):
        charge += gray if sensor.LIGHT_GAMMA is None else gray**sensor.LIGHT_GAMMA
        if sensor.NOISE:
            noise = random.standard_normal(shape, dtype=np.float32)
            charge += np.float32(sensor.NOISE) * noise
        fired = charge >= theta
        charge -= theta * fired
        if sensor.JITTER:
            delayed = random.random(shape, dtype=np.float32) < sensor.JITTER
            # At most one spike is read out per step; a second one waits for the next step.
            read_out = late | (fired & ~delayed)
            late = fired & (late | delayed)
            fired = read_out
        if sensor.DARK_COUNTS:
            fired |= random.random(shape, dtype=np.float32) < sensor.DARK_COUNTS
        if has_faulty_pixels:
            fired = (fired | hot) & alive
        yield fired


def _thresholds(
    shape: tuple[int, ...], sensor: SensorSettings, random: np.random.Generator
) -> NDArray[np.float32]:
    theta = np.full(shape, sensor.THETA, np.float32)
    if sensor.THETA_SPREAD:
        spread = 1 + sensor.THETA_SPREAD * random.standard_normal(shape)
        theta *= np.maximum(spread, _MIN_THETA_SHARE).astype(np.float32)
    return theta


def interpolate(first: Gray, second: Gray, steps: int, method: str) -> Iterator[Gray]:
    """Yield pictures in equal steps from one frame up to the next one, which is excluded.

    Args:
        first: grey frame (H, W), 0 to 1.
        second: next frame, same shape.
        steps: number of pictures; the first one is the first frame.
        method: ``linear`` mixes the two frames, so that moving things fade out here and in there;
            ``flow`` moves them (dense inverse search, both frames warped to the time and mixed).

    Raises:
        DataError: if frames are too small for optical flow.
    """
    shares = [np.float32(step / steps) for step in range(steps)]
    if method == "linear":
        difference = second - first
        for share in shares:
            yield first + share * difference
        return
    height, width = first.shape
    if min(height, width) < MIN_SIDE:
        raise DataError(
            f"sensor frames of {height} x {width} are too small for optical flow (at least "
            f"{MIN_SIDE} x {MIN_SIDE}); use linear interpolation"
        )
    first_bytes = np.rint(255 * first).astype(np.uint8)
    second_bytes = np.rint(255 * second).astype(np.uint8)
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    no_motion = np.zeros((height, width, 2), np.float32)
    forward = search.calc(first_bytes, second_bytes, no_motion.copy())
    backward = search.calc(second_bytes, first_bytes, no_motion)
    y, x = np.mgrid[:height, :width].astype(np.float32)

    def warped(frame: Gray, motion: NDArray[np.float32]) -> Gray:
        from_x = x - motion[..., 0]
        from_y = y - motion[..., 1]
        moved = cv2.remap(frame, from_x, from_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(moved, dtype=np.float32)

    for share in shares:
        early = warped(first, share * forward)
        late = warped(second, (1 - share) * backward)
        yield (1 - share) * early + share * late


def stream_spikes(
    frames: Iterable[Frame], sensor: SimulatedSensor = SPK_GOPRO_SENSOR
) -> Iterator[SpikeArray]:
    """Simulate spikes frame by frame, holding two frames in memory.

    Args:
        frames: see :func:`simulate_spikes`.
        sensor: settings of the sensor.

    Yields:
        bool (steps_per_frame, h, w) for each frame: the steps from this frame to just before the
        next one, with grey values interpolated in time. The last frame is static.

    Raises:
        DataError: see :func:`simulate_spikes`.
    """
    spikes = integrate_and_fire(_pictures(frames, sensor), sensor)
    while steps := list(itertools.islice(spikes, sensor.STEPS_PER_FRAME)):
        yield np.stack(steps)


def _pictures(frames: Iterable[Frame], sensor: SimulatedSensor) -> Iterator[Gray]:
    """Yield the light on the sensor in each step."""
    grays = (_sensor_gray(frame, sensor.DOWNSCALE) for frame in frames)
    for current, following in itertools.pairwise(itertools.chain(grays, [None])):
        assert current is not None, "only the end is None"
        if following is None:
            yield from itertools.repeat(current, sensor.STEPS_PER_FRAME)
        elif following.shape != current.shape:
            raise DataError(
                f"found a frame of {following.shape} pixels of the sensor after frames of "
                f"{current.shape}, expected one size; put frames of another size elsewhere"
            )
        else:
            steps = sensor.STEPS_PER_FRAME
            yield from interpolate(current, following, steps, sensor.INTERPOLATION)


def simulate_spikes(
    frames: Iterable[Frame],
    **options: Any,  # noqa: ANN401 - values of the keys
) -> NDArray[np.uint8]:
    """Simulate the spikes of an integrate-and-fire sensor that looks at a video.

    Frame i is at step ``i * steps_per_frame``; grey values between frames are interpolated;
    after the last frame the scene is static.

    Args:
        frames: N frames uint8 (H, W, 3) RGB or (H, W) grey, gamma-coded; at least one.
        options: keys of :class:`SimulatedSensor` in lower case.

    Returns:
        uint8 (N * steps_per_frame, H / downscale, W / downscale) of 0 and 1.

    Raises:
        DataError: if sizes do not divide.
        pydantic.ValidationError: if an option is out of range.
    """
    sensor = SimulatedSensor(**{name.upper(): value for name, value in options.items()})
    return np.concatenate(list(stream_spikes(frames, sensor))).view(np.uint8)


def _sensor_gray(frame: Frame, downscale: int) -> Gray:
    """Return the light of a frame on the sensor: grey (h, w) in [0, 1].

    Raises:
        DataError: if sizes do not divide.
    """
    height, width = frame.shape[:2]
    if height % downscale or width % downscale:
        raise DataError(
            f"frames of {height} x {width}, expected sides that are multiples of {downscale}, the "
            "frame size / sensor size (DOWNSCALE); cut the frames to that"
        )
    gray: Gray = shrink(luma(frame), height // downscale, width // downscale)
    return gray / np.float32(255)
