"""Augmentation of samples: flips, another camera or sensor, and a sensor with faults."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from vrtspike.data.clips.recording_limits import MAX_FAULTS, MAX_THRESHOLD, MIN_CAMERA_RATIO
from vrtspike.data.clips.samples import BinnedSpikes, Sample

_FLIP_CODES = {(True, True): -1, (True, False): 0, (False, True): 1}
"""The codes by which OpenCV flips rows and columns."""
MAX_THRESHOLD_SPREAD = 0.05
"""Maximum standard deviation of the threshold between pixels, as a share of it."""

RatioChange = Literal["none", "camera", "sensor"]
"""Part that gets half as many rows and columns: none, the camera, or the sensor."""


class Flips(NamedTuple):
    """One of the eight orientations of a picture.

    Attributes:
        rows: reverse the rows.
        columns: reverse the columns.
        transpose: exchange rows and columns, after the flips.
    """

    rows: bool
    columns: bool
    transpose: bool


def flip_sample(sample: Sample, flips: Flips) -> Sample:
    """Return a sample with all its arrays flipped in the same way."""
    if not any(flips):
        return sample
    spikes = sample.spikes
    if spikes is not None:
        planes = flip_planes(spikes.counts.flatten(0, 1), flips)
        spikes = spikes._replace(counts=planes.unflatten(0, spikes.counts.shape[:2]))
    return Sample(flip_planes(sample.blur, flips), flip_planes(sample.sharp, flips), spikes)


def flip_planes(planes: torch.Tensor, flips: Flips) -> torch.Tensor:
    """Flip and then transpose planes.

    OpenCV does it plane by plane, within the processor's cache, in a fifth of the time of torch.

    Args:
        planes: uint8 (N, H, W) or (N, H, W, 3), contiguous.
        flips: the orientation; at least one of the three is true.
    """
    rows, columns, transpose = flips
    count, height, width, *depth = planes.shape
    size = (height, width)
    if transpose:
        # Flipping rows and then transposing is transposing and then flipping columns.
        rows, columns = columns, rows
        size = (width, height)
    flip_code = _FLIP_CODES.get((rows, columns))
    result = np.empty((count, *size, *depth), dtype=np.uint8)
    transposed = np.empty((*size, *depth), dtype=np.uint8)
    for plane, target in zip(planes.numpy(), result, strict=True):
        if flip_code is None:
            cv2.transpose(plane, target)
        elif transpose:
            cv2.flip(cv2.transpose(plane, transposed), flip_code, target)
        else:
            cv2.flip(plane, flip_code, target)
    return torch.from_numpy(result)


def raise_threshold(spikes: BinnedSpikes, random: np.random.Generator) -> BinnedSpikes:
    """Return the spikes of a sensor with a higher threshold."""
    size = spikes.counts.shape[-2:]
    factor = random.uniform(1, MAX_THRESHOLD)
    spread = random.uniform(0, MAX_THRESHOLD_SPREAD)
    factors = np.maximum(1, factor * (1 + spread * random.standard_normal(size)))
    waiting = factors * random.random(size)
    counts = decimate_counts(spikes.counts, factors, waiting)
    return spikes._replace(counts=counts, gain=factor * spikes.gain)


def add_sensor_faults(spikes: BinnedSpikes, random: np.random.Generator) -> BinnedSpikes:
    """Return the spikes of a sensor with faults."""
    rates = {name: random.uniform(0, max_rate) for name, max_rate in MAX_FAULTS.items()}
    counts = add_faults(spikes.counts, spikes.bin_steps, random, **rates)
    before = spikes.counts.sum(1, dtype=torch.float32)
    after = counts.sum(1, dtype=torch.float32)
    # Use the gain of the faulty sensor, which dark counts lower.
    change = (before * after).sum() / after.square().sum().clamp(min=1)
    return spikes._replace(counts=counts, gain=change * spikes.gain)


def draw_ratio_change(
    probability: float, ratio: Fraction, random: np.random.Generator
) -> RatioChange:
    """Draw the change of ratio of a batch.

    Both changes are equally probable; below :data:`MIN_CAMERA_RATIO`, there is only the sensor.

    Args:
        probability: probability of any change.
        ratio: pixels of a frame for each spike pixel along each side.
        random: draws it.
    """
    draw = random.random()
    if draw >= probability:
        return "none"
    if draw < probability / 2 and ratio >= MIN_CAMERA_RATIO:
        return "camera"
    return "sensor"


def change_ratio(sample: Sample, change: RatioChange) -> Sample:
    """Return a sample whose frames, or spikes, have half as many rows and columns."""
    if change == "camera":
        return sample._replace(blur=halve_pictures(sample.blur), sharp=halve_pictures(sample.sharp))
    if change == "sensor" and sample.spikes is not None:
        counts = sample.spikes.counts
        # The seed comes from the spikes, so that a batch is the same in every process.
        random = np.random.default_rng(int(counts.sum()))
        spikes = sample.spikes._replace(counts=halve_sensor(counts, random))
        return sample._replace(spikes=spikes)
    return sample


def decimate_counts(
    counts: torch.Tensor, factor: float | NDArray[np.floating], waiting: NDArray[np.floating]
) -> torch.Tensor:
    """Return counts of a sensor with a higher threshold that sees the same light.

    After n spikes of the original sensor, such an integrate-and-fire pixel has fired
    floor((n + waiting) / m) times: exactly so for a whole m. Charge carries over from frame to
    frame, as if exposures were contiguous.

    Args:
        counts: integers (T, K, h, w), spikes per bin of successive frames.
        factor: m, the threshold over that of the original, at least 1; of each pixel (h, w), or
            of all.
        waiting: (h, w), 0 <= waiting < m: its charge at the start, in original spikes.

    Returns:
        uint8 (T, K, h, w).
    """
    charge = waiting.astype(np.float32)
    factors = np.broadcast_to(np.asarray(factor, np.float32), charge.shape)
    result = np.empty(counts.shape, dtype=np.uint8)
    planes = counts.numpy().reshape(-1, *charge.shape)
    targets = result.reshape(-1, *charge.shape)
    for spikes, target in zip(planes, targets, strict=True):
        charge += spikes
        fired = np.floor(charge / factors)
        charge -= fired * factors
        target[:] = fired
    return torch.from_numpy(result)


def halve_pictures(pictures: torch.Tensor) -> torch.Tensor:
    """Return pictures of a camera with half as many rows and columns: means of four pixels.

    Args:
        pictures: uint8 (T, H, W, 3), H and W even.

    Returns:
        uint8 (T, H / 2, W / 2, 3).
    """
    height, width = pictures.shape[1:3]
    halves = [
        cv2.resize(picture, (width // 2, height // 2), interpolation=cv2.INTER_AREA)
        for picture in pictures.numpy()
    ]
    return torch.from_numpy(np.stack(halves))


def halve_sensor(counts: torch.Tensor, random: np.random.Generator) -> torch.Tensor:
    """Return counts of a sensor with half as many rows and columns.

    Each pixel collects the light of four pixels and fires at four times their charge.

    Args:
        counts: uint8 (T, K, h, w), spikes per bin of successive frames; h and w even.
        random: draws the charge of each pixel at the start.

    Returns:
        uint8 (T, K, h / 2, w / 2).
    """
    frames, bins, height, width = counts.shape
    squares = counts.reshape(frames, bins, height // 2, 2, width // 2, 2)
    collected = squares.sum(dim=(3, 5), dtype=torch.int32)
    waiting = 4 * random.random((height // 2, width // 2))
    return decimate_counts(collected, 4, waiting)


def add_faults(
    counts: torch.Tensor,
    steps: torch.Tensor,
    random: np.random.Generator,
    *,
    dark: float = 0.0,
    flipped: float = 0.0,
    hot: float = 0.0,
    dead: float = 0.0,
    late: float = 0.0,
) -> torch.Tensor:
    """Return counts of a sensor that has faults.

    Only the faults themselves are drawn, which takes a tenth of the time of drawing every step of
    every pixel. If several hit one bin of a pixel, the last one counts.

    Args:
        counts: uint8 (T, K, h, w), spikes per bin.
        steps: uint8 (T, K), steps of each bin.
        random: draws the faults.
        dark: probability of a spike without light, for each pixel and step.
        flipped: probability that a step is read inverted: a spike as no spike, or the reverse.
        hot: share of the pixels that fire at every step.
        dead: share of the pixels that never fire.
        late: probability that a spike is read out a step late, and so perhaps in the next bin.

    Returns:
        uint8 (T, K, h, w).
    """
    result = counts.numpy().copy().reshape(-1, *counts.shape[-2:])
    bin_steps = steps.numpy().ravel().astype(np.int64)
    _flip_steps(result, bin_steps, random, share=dark, removes_spikes=False)
    _flip_steps(result, bin_steps, random, share=flipped, removes_spikes=True)
    _delay_spikes(result, bin_steps, random, share=late, frame_bins=counts.shape[1])
    draw = random.random(counts.shape[-2:])
    result[:, draw < hot] = bin_steps[:, None]
    result[:, draw > 1 - dead] = 0
    return torch.from_numpy(result.reshape(counts.shape))


def _flip_steps(
    counts: NDArray[np.uint8],
    bin_steps: NDArray[np.int64],
    random: np.random.Generator,
    *,
    share: float,
    removes_spikes: bool,
) -> None:
    """Add spikes in some steps without one, and optionally remove them in some steps with one.

    Args:
        counts: uint8 (B, h, w), spikes of each bin of all frames; changed in place.
        bin_steps: (B,), steps of each bin.
        random: draws the steps.
        share: share of all steps of all pixels.
        removes_spikes: remove the spike in steps with one; else such steps stay as they are.
    """
    values = counts.reshape(-1)
    pixels = counts.shape[1] * counts.shape[2]
    bin_of_step = np.repeat(np.arange(len(bin_steps)), bin_steps)
    number = random.poisson(share * len(bin_of_step) * pixels)
    bins = bin_of_step[random.integers(len(bin_of_step), size=number)]
    positions = bins * pixels + random.integers(pixels, size=number)
    spikes = values[positions].astype(np.int64)
    # The step is any of its bin, so it has a spike with the probability spikes / steps.
    has_spike = random.random(number) * bin_steps[bins] < spikes
    change_of_spike = -1 if removes_spikes else 0
    values[positions] = spikes + np.where(has_spike, change_of_spike, 1)


def _delay_spikes(
    counts: NDArray[np.uint8],
    bin_steps: NDArray[np.int64],
    random: np.random.Generator,
    *,
    share: float,
    frame_bins: int,
) -> None:
    """Move some last spikes of a bin to the next one.

    Args:
        counts: uint8 (B, h, w), spikes of each bin of all frames; changed in place.
        bin_steps: (B,), steps of each bin.
        random: draws the spikes.
        share: share of the last steps of all bins and pixels.
        frame_bins: bins of a frame; the last spike of an exposure is not in the next one, as the
            frames of a clip are read apart.
    """
    values = counts.reshape(-1)
    pixels = counts.shape[1] * counts.shape[2]
    number = random.poisson(share * len(bin_steps) * pixels)
    bins = random.integers(len(bin_steps), size=number)
    positions = bins * pixels + random.integers(pixels, size=number)
    is_last_bin = (bins + 1) % frame_bins == 0
    following = np.where(is_last_bin, positions, positions + pixels)
    has_spike = random.random(number) * bin_steps[bins] < values[positions]
    has_room = values[following] < bin_steps[following // pixels]
    moves = has_spike & has_room & ~is_last_bin
    values[positions[moves]] -= 1
    values[following[moves]] += 1
