"""Recorded spikes of an exposure: the picture of an instant, and the motion."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.calibration.homography import displacement
from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.rgb_images import Image
from vrtspike.restoration.spikes_alone import instant_picture

PARTS = 3
"""Parts of an exposure between whose pictures the motion is measured."""
MIN_SIDE = 32
"""Smallest side of a sensor on which motion is measured."""


@dataclass(frozen=True)
class RecordedSpikes:
    """The spikes of one exposure.

    Attributes:
        spikes: spikes of the recording, (T, h, w).
        exposure: exposure in steps of the recording.
        ratio: pixels of a frame for each spike pixel along each side.
        location: file or folder and frame, for messages.
    """

    spikes: PackedSpikes
    exposure: Exposure
    ratio: Fraction
    location: str

    def picture(self, blurry: Image) -> NDArray[np.uint8]:
        """Return the picture of the instant, uint8 (h, w), as bright as the blurry frame."""
        return instant_picture(self.spikes, self.exposure, blurry, self.location)

    def motion(self) -> float:
        """Measure the length of the motion, in pixels of the frame.

        The exposure is divided into :data:`PARTS`. Between the pictures of successive parts the
        optical flow is measured, its median length where there is detail is summed, and the sum
        extended from the centres of the outer parts to the whole exposure.

        Returns:
            pixels; NaN for exposures of fewer steps than parts, and for sensors with a side below
            :data:`MIN_SIDE` pixels.
        """
        exposure = self.exposure
        if exposure.steps < PARTS or min(self.spikes.shape[1:]) < MIN_SIDE:
            return float("nan")
        edges = np.linspace(exposure.start, exposure.stop, PARTS + 1).round().astype(int).tolist()
        pictures = [self.spikes.count_image(start, stop) for start, stop in pairwise(edges)]
        length = sum(displacement(after, before) for before, after in pairwise(pictures))
        return length * PARTS / (PARTS - 1) * float(self.ratio)
