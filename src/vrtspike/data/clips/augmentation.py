"""Augmentation of clips: turned, or seen by another sensor or one with faults."""

from __future__ import annotations

import cv2
import numpy as np
import torch
from numpy.typing import NDArray


def turned(values: torch.Tensor, first: int, rows: bool, columns: bool, swap: bool) -> torch.Tensor:
    """Flip and then transpose two axes.

    OpenCV does it plane by plane, within the processor's cache, in a fifth of the time of torch.

    Args:
        values: uint8, contiguous.
        first: the rows' axis; the columns' axis follows it.
        rows: whether rows are reversed.
        columns: whether columns are reversed.
        swap: whether rows and columns change places, after the flips.
    """
    if swap:  # flipping rows first is flipping columns afterwards
        rows, columns = columns, rows
    shape = list(values.shape)
    height, width = shape[first : first + 2]
    depth = shape[first + 2 :]
    shape[first : first + 2] = (width, height) if swap else (height, width)
    result = np.empty(shape, dtype=np.uint8)
    planes = values.numpy().reshape(-1, height, width, *depth)
    targets = result.reshape(-1, *shape[first:])
    code = {(True, False): 0, (False, True): 1, (True, True): -1}.get((rows, columns))
    between = np.empty(shape[first:], dtype=np.uint8)
    for plane, target in zip(planes, targets, strict=True):
        if code is None:
            cv2.transpose(plane, target)
        elif swap:
            cv2.flip(cv2.transpose(plane, between), code, target)
        else:
            cv2.flip(plane, code, target)
    return torch.from_numpy(result)


def decimated(
    counts: torch.Tensor, times: float | NDArray[np.floating], waiting: NDArray[np.floating]
) -> torch.Tensor:
    """Counts of a sensor with a higher threshold that sees the same light.

    After n spikes of the original sensor, such an integrate-and-fire pixel has fired
    floor((n + waiting) / m) times: exactly so for a whole m. Its charge
    runs on from frame to frame, as if exposures abutted.

    Args:
        counts: integers (T, K, h, w), spikes per bin of successive frames.
        times: m, the threshold over that of the original, at least 1; of each pixel (h, w), or all.
        waiting: (h, w), 0 <= waiting < m: its charge at the start, in original spikes.

    Returns:
        uint8 (T, K, h, w).
    """
    charge = waiting.astype(np.float32)
    each = np.broadcast_to(np.asarray(times, np.float32), charge.shape)
    fired = np.empty(counts.shape, dtype=np.uint8)
    planes = (counts.numpy().reshape(-1, *charge.shape), fired.reshape(-1, *charge.shape))
    for spikes, target in zip(*planes, strict=True):
        charge += spikes
        found = np.floor(charge / each)
        charge -= found * each
        target[:] = found
    return torch.from_numpy(fired)


def halved_pictures(pictures: torch.Tensor) -> torch.Tensor:
    """Pictures of a camera with half as many rows and columns: means of four pixels.

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


def halved_sensor(counts: torch.Tensor, random: np.random.Generator) -> torch.Tensor:
    """Counts of a sensor with half as many rows and columns.

    Each of its pixels collects the light of four and fires at four times their charge.

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
    return decimated(collected, 4, waiting)


def with_faults(
    counts: torch.Tensor,
    steps: torch.Tensor,
    random: np.random.Generator,
    *,
    dark: float,
    flipped: float,
    hot: float,
    dead: float,
    late: float,
) -> torch.Tensor:
    """Counts of a sensor that has faults.

    Faults are drawn one by one and not for every step of every pixel, which takes a tenth of the
    time; of several in one bin of a pixel, the last one counts.

    Args:
        counts: uint8 (T, K, h, w), spikes per bin.
        steps: uint8 (T, K), steps of each bin.
        random: draws the faults.
        dark: probability of a spike without light, for each pixel and step.
        flipped: probability that a step is read the wrong way round, a spike as none and none as
            one.
        hot: share of the pixels that fire at every step.
        dead: share of the pixels that never fire.
        late: probability that a spike is read out a step late, and so perhaps in the next bin.

    Returns:
        uint8 (T, K, h, w).
    """
    result = counts.numpy().copy().reshape(-1, *counts.shape[-2:])
    of_bin = steps.numpy().ravel().astype(np.int64)
    pixels = counts.shape[-2] * counts.shape[-1]
    values = result.reshape(-1)
    bin_of_step = np.repeat(np.arange(len(of_bin)), of_bin)
    for share, loses in ((dark, False), (flipped, True)):
        number = random.poisson(share * len(bin_of_step) * pixels)
        bins = bin_of_step[random.integers(len(bin_of_step), size=number)]
        places = bins * pixels + random.integers(pixels, size=number)
        found = values[places].astype(np.int64)
        # The step that is hit is any of its bin: has the pixel fired in it?
        fired = random.random(number) * of_bin[bins] < found
        values[places] = found + np.where(fired, -1 if loses else 0, 1)
    number = random.poisson(late * len(of_bin) * pixels)
    bins = random.integers(len(of_bin), size=number)
    places = bins * pixels + random.integers(pixels, size=number)
    # The last spike of an exposure is not in the next one: frames of a clip are read apart.
    following = np.where((bins + 1) % counts.shape[1], places + pixels, places)
    fired = random.random(number) * of_bin[bins] < values[places]
    fired &= (values[following] < of_bin[following // pixels]) & (following > places)
    values[places[fired]] -= 1
    values[following[fired]] += 1
    kind = random.random(counts.shape[-2:])
    result[:, kind < hot] = of_bin[:, None]
    result[:, kind > 1 - dead] = 0
    return torch.from_numpy(result.reshape(counts.shape))
