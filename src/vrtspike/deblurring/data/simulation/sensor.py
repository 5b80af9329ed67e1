"""Simulators: blur from sharp frames and spikes from frames.

For users without a spike camera, for the demo data and for tests. With the default arguments the
spikes follow the rule of the Spk-GoPro data set (spike rate = grey / 2, eight steps per 240 fps
frame, half the frames' resolution, no noise).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal, TypedDict, Unpack

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat
from pydantic.dataclasses import dataclass

from vrtspike.deblurring.data.raw.layouts.spk_gopro import STEPS_PER_SOURCE_FRAME
from vrtspike.errors import DataError
from vrtspike.io.images import luma, shrink

Interpolation = Literal["linear", "flow"]

MIN_SIDE = 16
"""Smallest side that optical flow works on."""

Share = Annotated[float, Field(ge=0, le=1)]


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


@dataclass(frozen=True)
class SensorModel:
    """What a simulated sensor does besides integrating; the defaults are those of Spk-GoPro.

    Raises:
        pydantic.ValidationError: where a value is out of its range.
    """

    theta: PositiveFloat = 2.0
    """Threshold, in units of full-scale grey."""
    theta_spread: NonNegativeFloat = 0.0
    """Standard deviation of the threshold from pixel to pixel, as a share of it."""
    noise: NonNegativeFloat = 0.0
    """Standard deviation of the grey value of a step, as a share of full scale."""
    dark_counts: Share = 0.0
    """Probability of a spike without light, for each pixel and step."""
    hot_pixels: Share = 0.0
    """Share of the pixels that fire at every step."""
    dead_pixels: Share = 0.0
    """Share of the pixels that never fire."""
    jitter: Share = 0.0
    """Probability that a spike is read out a step late."""
    light_gamma: PositiveFloat | None = None
    """Grey values are coded with it and the sensor sees linear light; None: it sees coded values.
    """
    start_phase: Share | None = None
    """Charge at the start, as a share of the threshold; None: any, another one at each pixel."""

    def __post_init__(self) -> None:
        """Refuse more hot and dead pixels than there are pixels."""
        if self.hot_pixels + self.dead_pixels > 1:
            raise ValueError("hot_pixels and dead_pixels are more than all pixels together")


_PERFECT = SensorModel()
_LEAST_THETA = 0.1
"""Of the threshold: lower ones are not drawn, however wide the spread."""


class SpikeSensor:
    """An integrate-and-fire sensor whose charge carries over from step to step.

    Per pixel: V is uniform in [0, theta) at the start; every step V += grey; where V >= theta the
    pixel spikes and V -= theta (the remainder stays). At most one spike per step.
    """

    def __init__(
        self, height: int, width: int, model: SensorModel = _PERFECT, seed: int = 0
    ) -> None:
        """Prepare a sensor.

        Args:
            height: rows.
            width: columns.
            model: its threshold and its faults.
            seed: decides all that is drawn.
        """
        self._model = model
        self._random = np.random.default_rng(seed)
        phase = self._random.random((height, width), dtype=np.float32)
        if model.start_phase is not None:
            phase[:] = model.start_phase
        self._theta = np.full((height, width), model.theta, np.float32)
        if model.theta_spread:
            spread = 1 + model.theta_spread * self._random.standard_normal((height, width))
            self._theta *= np.maximum(spread, _LEAST_THETA).astype(np.float32)
        self._charge = phase * self._theta
        self._late = np.zeros((height, width), np.bool_)
        kind = self._random.random((height, width)) if model.hot_pixels or model.dead_pixels else 1
        self._hot = np.less(kind, model.hot_pixels)
        self._alive = np.less_equal(kind, 1 - model.dead_pixels)

    def step(self, gray: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Expose one step to grey (H, W) in [0, 1]; return where it spikes."""
        model = self._model
        self._charge += gray if model.light_gamma is None else gray**model.light_gamma
        shape = self._charge.shape
        if model.noise:
            noise = self._random.standard_normal(shape, dtype=np.float32)
            self._charge += np.float32(model.noise) * noise
        fired = self._charge >= self._theta
        self._charge -= self._theta * fired
        if model.jitter:
            delayed = self._random.random(shape, dtype=np.float32) < model.jitter
            # One spike a step is read out; a second one waits.
            read = self._late | (fired & ~delayed)
            self._late = fired & (self._late | delayed)
            fired = read
        if model.dark_counts:
            fired |= self._random.random(shape, dtype=np.float32) < model.dark_counts
        if model.hot_pixels or model.dead_pixels:
            fired = (fired | self._hot) & self._alive
        return fired


def between(
    first: NDArray[np.float32], second: NDArray[np.float32], steps: int, how: Interpolation
) -> Iterator[NDArray[np.float32]]:
    """Pictures in equal steps from one frame up to the next one, which is excluded.

    Args:
        first: grey frame (H, W), 0 to 1.
        second: the next frame.
        steps: how many pictures; the first one is the first frame.
        how: ``linear`` mixes the two frames, so that what moves fades out here and in there;
            ``flow`` moves it (dense inverse search, both frames warped to the time and mixed).

    Raises:
        DataError: if frames are too small for optical flow.
    """
    shares = [np.float32(step / steps) for step in range(steps)]
    if how == "linear":
        difference = second - first
        yield from (first + share * difference for share in shares)
        return
    height, width = first.shape
    if min(height, width) < MIN_SIDE:
        raise DataError(
            f"sensor frames of {height} x {width} are too small for optical flow (at least "
            f"{MIN_SIDE} x {MIN_SIDE}); use linear interpolation"
        )
    bytes_0, bytes_1 = (np.rint(255 * frame).astype(np.uint8) for frame in (first, second))
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    still = np.zeros((height, width, 2), np.float32)
    forward = search.calc(bytes_0, bytes_1, still.copy())
    backward = search.calc(bytes_1, bytes_0, still)
    y, x = np.mgrid[:height, :width].astype(np.float32)

    def warped(frame: NDArray[np.float32], motion: NDArray[np.float32]) -> NDArray[np.float32]:
        from_x, from_y = x - motion[..., 0], y - motion[..., 1]
        moved = cv2.remap(frame, from_x, from_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(moved, dtype=np.float32)

    for share in shares:
        early, late = warped(first, share * forward), warped(second, (1 - share) * backward)
        yield (1 - share) * early + share * late


def stream_spikes(
    frames: Iterable[NDArray[np.uint8]],
    steps_per_frame: int = STEPS_PER_SOURCE_FRAME,
    sensor: SensorModel = _PERFECT,
    seed: int = 0,
    *,
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
    grays = (_sensor_gray(frame, downscale) for frame in frames)
    current = next(grays, None)
    if current is None:
        return
    height, width = current.shape
    pixels = SpikeSensor(height, width, sensor, seed)
    for following in grays:
        if following.shape != current.shape:
            raise DataError(
                f"found a frame of {following.shape} pixels of the sensor after frames of "
                f"{current.shape}, expected one size; put frames of another size elsewhere"
            )
        seen = between(current, following, steps_per_frame, interpolation)
        yield np.stack([pixels.step(gray) for gray in seen])
        current = following
    yield np.stack([pixels.step(current) for _ in range(steps_per_frame)])


class Simulation(TypedDict, total=False):
    """How spikes are simulated; what is not given is as :func:`stream_spikes` has it."""

    steps_per_frame: int
    """Spike steps from one frame to the next (8 at 240 frames a second)."""
    sensor: SensorModel
    """What the sensor is like; its mean spike rate is grey / theta (grey from 0 to 1)."""
    seed: int
    """Of the initial charge of each pixel, and all else that is drawn."""
    downscale: int
    """Frame pixels per spike pixel along each side; 2 is Spk-GoPro's half resolution."""
    interpolation: Interpolation
    """What is seen between frames, see :func:`between`."""


def simulate_spikes(
    frames: Iterable[NDArray[np.uint8]], **how: Unpack[Simulation]
) -> NDArray[np.uint8]:
    """Simulate the spikes of an integrate-and-fire sensor that looks at a video.

    Frame i stands at step ``i * steps_per_frame``; grey values between frames are interpolated;
    after the last frame the scene stands still.

    Args:
        frames: N frames uint8 (H, W, 3) RGB or (H, W) grey, gamma-coded.
        how: see :class:`Simulation`.

    Returns:
        uint8 (N * steps_per_frame, H / downscale, W / downscale) of 0 and 1.

    Raises:
        DataError: if there are no frames, sizes do not divide, or an option is out of range.
    """
    parts = list(stream_spikes(frames, **how))
    if not parts:
        raise DataError("no frames to simulate spikes from")
    return np.concatenate(parts).view(np.uint8)


def _sensor_gray(frame: NDArray[np.uint8], downscale: int) -> NDArray[np.float32]:
    """What a sensor pixel sees of a frame: grey (h, w) in [0, 1]."""
    height, width = frame.shape[:2]
    if height % downscale or width % downscale:
        raise DataError(
            f"frames of {height} x {width}, expected sides that are multiples of {downscale}, for "
            "the sensor has so many times fewer pixels (--downscale); cut the frames to that"
        )
    gray: NDArray[np.float32] = shrink(luma(frame), height // downscale, width // downscale)
    return gray / np.float32(255)
