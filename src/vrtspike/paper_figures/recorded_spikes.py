"""Recorded spikes of a clip: pictures of an instant, and the motion during an exposure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.calibration.homography import displacement
from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.paper_figures.results import Clip
from vrtspike.restoration.spikes_alone import instant_picture

PARTS = 3
"""Parts of an exposure between whose pictures the motion is measured."""
MIN_SIDE = 32
"""Smallest side of a sensor on which motion is measured."""


def with_spikes(
    clip: Clip,
    recorded: Callable[[str], tuple[PackedSpikes, Exposure]],
    ratio: Fraction,
    location: object,
) -> Clip:
    """Return a clip with pictures and motion from recorded spikes.

    Args:
        clip: clip without spikes.
        recorded: function from the name of a frame to spikes, and its exposure in them.
        ratio: pixels of a frame for each spike pixel along each side.
        location: file or folder of the spikes, for messages.
    """

    def picture(name: str) -> NDArray[np.uint8]:
        spikes, exposure = recorded(name)
        return instant_picture(spikes, exposure, clip.blurry(name), f"{location}, frame {name}")

    def motion(name: str) -> float:
        spikes, exposure = recorded(name)
        return motion_length(spikes, exposure, ratio)

    return replace(clip, spikes=picture, motion=motion)


def motion_length(spikes: PackedSpikes, exposure: Exposure, ratio: Fraction) -> float:
    """The length of the motion during an exposure, in pixels of the frame.

    The exposure is divided into :data:`PARTS`. Between the pictures of successive parts the optical
    flow is measured, its median length where there is detail is summed, and the sum extended from
    the centres of the outer parts to the whole exposure.

    Args:
        spikes: spikes of the recording, (T, h, w).
        exposure: exposure in steps of the recording.
        ratio: pixels of a frame for each spike pixel along each side.

    Returns:
        pixels; NaN for exposures of fewer steps than parts, and for sensors with a side below
        :data:`MIN_SIDE` pixels.
    """
    if exposure.steps < PARTS or min(spikes.shape[1:]) < MIN_SIDE:
        return float("nan")
    edges = np.linspace(exposure.start, exposure.stop, PARTS + 1).round().astype(int).tolist()
    pictures = [spikes.picture(start, stop) for start, stop in pairwise(edges)]
    length = sum(displacement(after, before) for before, after in pairwise(pictures))
    return length * PARTS / (PARTS - 1) * float(ratio)
