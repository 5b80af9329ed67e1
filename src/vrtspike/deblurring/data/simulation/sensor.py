"""Simulators: blur from sharp frames and spikes from frames.

For users without a spike camera, for the demo data and for tests. With the default arguments the
spikes follow the rule of the Spk-GoPro data set (spike rate = grey / 2, eight steps per 240 fps
frame, half the frames' resolution, no noise).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
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
        DataError: if gamma is not positive.
    """
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
class Simulation:
    """A simulated sensor and what it is shown; the defaults are those of Spk-GoPro.

    Raises:
        pydantic.ValidationError: where a value is out of its range.
    """

    steps_per_frame: PositiveInt = STEPS_PER_SOURCE_FRAME
    """Spike steps from one frame to the next (8 at 240 frames a second)."""
    downscale: PositiveInt = 2
    """Frame pixels per spike pixel along each side; 2 is Spk-GoPro's half resolution."""
    interpolation: Interpolation = "linear"
    """What is seen between frames, see :func:`between`."""
    seed: int = 0
    """Of the initial charge of each pixel, and all else that is drawn."""
    theta: PositiveFloat = 2.0
    """Threshold, in units of full-scale grey; the mean spike rate is grey / theta (0 to 1)."""
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


SPK_GOPRO = Simulation()
_LEAST_THETA = 0.1
"""Of the threshold: lower ones are not drawn, however wide the spread."""


def fire(pictures: Iterator[NDArray[np.float32]], model: Simulation) -> Iterator[NDArray[np.bool_]]:
    """The spikes of an integrate-and-fire sensor, step by step.

    Per pixel: V is uniform in [0, theta) at the start; every step V += grey; where V >= theta the
    pixel spikes and V -= theta (the remainder stays). At most one spike per step.

    Args:
        pictures: what it sees in each step, grey (H, W) in [0, 1].
        model: its threshold, its faults and the seed of all that is drawn.
    """
    first = next(pictures, None)
    if first is None:
        return
    shape, random = first.shape, np.random.default_rng(model.seed)
    phase = random.random(shape, dtype=np.float32)
    if model.start_phase is not None:
        phase[:] = model.start_phase
    theta = np.full(shape, model.theta, np.float32)
    if model.theta_spread:
        spread = 1 + model.theta_spread * random.standard_normal(shape)
        theta *= np.maximum(spread, _LEAST_THETA).astype(np.float32)
    charge = phase * theta
    late = np.zeros(shape, np.bool_)
    kind = random.random(shape) if model.hot_pixels or model.dead_pixels else 1
    hot, alive = np.less(kind, model.hot_pixels), np.less_equal(kind, 1 - model.dead_pixels)
    for gray in itertools.chain([first], pictures):
        charge += gray if model.light_gamma is None else gray**model.light_gamma
        if model.noise:
            noise = random.standard_normal(shape, dtype=np.float32)
            charge += np.float32(model.noise) * noise
        fired = charge >= theta
        charge -= theta * fired
        if model.jitter:
            delayed = random.random(shape, dtype=np.float32) < model.jitter
            # One spike a step is read out; a second one waits.
            read = late | (fired & ~delayed)
            late = fired & (late | delayed)
            fired = read
        if model.dark_counts:
            fired |= random.random(shape, dtype=np.float32) < model.dark_counts
        if model.hot_pixels or model.dead_pixels:
            fired = (fired | hot) & alive
        yield fired


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
    frames: Iterable[NDArray[np.uint8]], how: Simulation = SPK_GOPRO
) -> Iterator[NDArray[np.bool_]]:
    """Simulate spikes frame by frame, holding two frames in memory.

    Args:
        frames: see :func:`simulate_spikes`.
        how: the sensor.

    Yields:
        bool (steps_per_frame, h, w) for each frame: the steps from this frame to just before the
        next one, with grey values interpolated in time. The last frame stands still.

    Raises:
        DataError: see :func:`simulate_spikes`.
    """
    spikes = fire(_pictures(frames, how), how)
    while steps := list(itertools.islice(spikes, how.steps_per_frame)):
        yield np.stack(steps)


def _pictures(
    frames: Iterable[NDArray[np.uint8]], how: Simulation
) -> Iterator[NDArray[np.float32]]:
    """What the sensor sees in each step."""
    grays = (_sensor_gray(frame, how.downscale) for frame in frames)
    for current, following in itertools.pairwise(itertools.chain(grays, [None])):
        assert current is not None, "only the end is None"
        if following is None:
            yield from itertools.repeat(current, how.steps_per_frame)
        elif following.shape != current.shape:
            raise DataError(
                f"found a frame of {following.shape} pixels of the sensor after frames of "
                f"{current.shape}, expected one size; put frames of another size elsewhere"
            )
        else:
            yield from between(current, following, how.steps_per_frame, how.interpolation)


def simulate_spikes(
    frames: Iterable[NDArray[np.uint8]],
    **how: Any,  # noqa: ANN401 - values of a Simulation
) -> NDArray[np.uint8]:
    """Simulate the spikes of an integrate-and-fire sensor that looks at a video.

    Frame i stands at step ``i * steps_per_frame``; grey values between frames are interpolated;
    after the last frame the scene stands still.

    Args:
        frames: N frames uint8 (H, W, 3) RGB or (H, W) grey, gamma-coded; at least one.
        how: see :class:`Simulation`.

    Returns:
        uint8 (N * steps_per_frame, H / downscale, W / downscale) of 0 and 1.

    Raises:
        DataError: if sizes do not divide.
        pydantic.ValidationError: if an option is out of range.
    """
    return np.concatenate(list(stream_spikes(frames, Simulation(**how)))).view(np.uint8)


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
