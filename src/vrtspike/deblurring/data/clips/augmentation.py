"""What a clip might as well have been: turned, or seen by a sensor of a higher threshold."""

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


def decimated(counts: torch.Tensor, every: int, waiting: NDArray[np.integer]) -> torch.Tensor:
    """Counts of a sensor with ``every`` times the threshold that sees the same light.

    Such an integrate-and-fire pixel fires at exactly every m-th spike of the original one: after n
    original spikes it has fired floor((n + waiting) / m) times. Exposures of successive frames
    abut, so its charge runs on from frame to frame.

    Args:
        counts: uint8 (T, K, h, w), spikes per bin of successive frames.
        every: m, at least 1.
        waiting: integers (h, w) from 0 to m - 1: its charge at the start, in original spikes.

    Returns:
        uint8 (T, K, h, w).
    """
    charge = waiting.astype(np.uint16)
    fired = np.empty(counts.shape, dtype=np.uint8)
    planes = (counts.numpy().reshape(-1, *charge.shape), fired.reshape(-1, *charge.shape))
    for spikes, target in zip(*planes, strict=True):
        charge += spikes
        found = charge // np.uint16(every)
        charge -= found * np.uint16(every)
        target[:] = found
    return torch.from_numpy(fired)
