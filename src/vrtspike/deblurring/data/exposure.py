"""The time axis of one exposure: where its sharp frame lies, and the bins about that instant.

The N source frames of a blurry frame stand at steps 0, 8, ..., 8 (N - 1) of its T = 8 N spike
steps, so the sharp frame, the middle one, is at step 4 (N - 1) and not at T / 2. Bins are laid
about it: edge K // 2 of K bins is the sharp instant in exposures of every length, so a model finds
it in one place (K equal bins had it in bin 13.7, 14.5 or 14.8 of 32 for N = 7, 11 and 13), and they
are narrowest there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError

STEPS_PER_FRAME = 8
"""Spike steps from one source frame to the next."""


def expected_center(spike_frames: int) -> float:
    """Step of the sharp frame in an exposure of T steps: 4 (N - 1) for T = 8 N.

    It is half a frame interval before the middle of the steps.

    >>> expected_center(88)
    40.0
    """
    return (spike_frames - STEPS_PER_FRAME) / 2


def sharp_step(spike_frames: int) -> int:
    """First step after the edge that bins are laid about.

    It is the step of :func:`expected_center`, for odd T the one within which the sharp instant
    falls. An exposure of fewer than two source frames (T < 16) has no middle one, and hardly a
    step before it: its edge is the middle of the exposure, T // 2.
    """
    if spike_frames < 2 * STEPS_PER_FRAME:
        return spike_frames // 2
    return int(expected_center(spike_frames))


def most_bins(spike_frames: int) -> int:
    """The largest K that an exposure of T steps can fill: T - 7 for even T from 16 on.

    >>> most_bins(56)
    49
    """
    before = sharp_step(spike_frames)
    # K // 2 bins lie before the edge, the others after it.
    about = min(2 * before + 1, 2 * (spike_frames - before))
    return min(spike_frames, max(1, about))


def bin_edges(spike_frames: int, bins: int) -> NDArray[np.int64]:
    """First step of each bin, and the end: int64 (K + 1,), from 0 to T.

    Edge K // 2 is :func:`sharp_step`; each of the two parts is divided by :func:`_half`. A single
    bin holds the whole exposure.

    Raises:
        DataError: if K is not between 1 and :func:`most_bins` (bins would be empty) or a count
            could exceed 255.

    >>> bin_edges(56, 4).tolist()
    [0, 21, 24, 28, 56]
    """
    if bins < 1:
        raise DataError(f"{bins} voxel bins: at least 1 is needed (DATA.K)")
    most, middle = most_bins(spike_frames), sharp_step(spike_frames)
    if bins > most:
        raise DataError(
            f"{bins} voxel bins for {spike_frames} spike frames: bins would be empty, half of them "
            f"lie before the sharp frame (step {middle}); set DATA.K to at most {most}"
        )
    steps = np.array([spike_frames], dtype=np.int64)
    if bins > 1:
        before = _half(middle, bins // 2)
        steps = np.concatenate([before[::-1], _half(spike_frames - middle, bins - bins // 2)])
    if steps.max() > 255:
        raise DataError(
            f"{bins} voxel bins for {spike_frames} spike frames: a bin holds more than 255 steps "
            "and its counts do not fit in 8 bits; raise DATA.K"
        )
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(steps)])


def _half(steps: int, bins: int) -> NDArray[np.int64]:
    """Widths of the bins on one side of the sharp frame, from there outwards: int64 (bins,).

    Fine next to the sharp frame, whose brightness is asked for, and coarser farther away: bin j of
    n ends j + (steps - n) (j / n)^3 steps from it. Equal bins tell a linear regression of the sharp
    frame 0.5 dB less (``benchmarks/learning.py``). SpkDeblurNet (Chen et al., NeurIPS 2023) gives
    its network the central steps unbinned.

    Args:
        steps: their sum, at least ``bins``.
        bins: n, at least 1.
    """
    number = np.arange(bins + 1, dtype=np.int64)
    return np.diff(number + (steps - bins) * number**3 // bins**3)


def bin_steps(spike_frames: int, bins: int) -> NDArray[np.int64]:
    """Number of steps in each bin: int64 (K,), its sum is T."""
    return np.diff(bin_edges(spike_frames, bins))


def bin_table(spike_frames: Sequence[int], bins: int) -> NDArray[np.uint8]:
    """:func:`bin_steps` of several exposures: uint8 (exposures, K).

    Args:
        spike_frames: T of each exposure, at least one.
        bins: K.

    >>> bin_table([16, 24], 4).tolist()
    [[3, 1, 2, 10], [7, 1, 2, 14]]
    """
    rows = {steps: bin_steps(steps, bins) for steps in set(spike_frames)}
    return np.stack([rows[steps] for steps in spike_frames]).astype(np.uint8)
