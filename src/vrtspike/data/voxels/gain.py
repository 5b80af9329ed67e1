"""The gain of a sensor, from its spikes and the blurry frames."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vrtspike.io.images import luma, shrink
from vrtspike.system.errors import DataError


class GainEstimator:
    """The sensitivity of a sensor: the brightness of a spike rate of 1.

    An integrate-and-fire pixel with threshold theta fires at a rate of grey / theta, so one scene
    gives half the spikes to a sensor with twice the threshold. Mean spikes and blurry frame show
    the same light, up to that factor: the gain is its least-squares estimate over a sequence,
    gain = sum(luma(blur) r) / sum(r^2), r the mean rate; gain x rate is the input of the model.
    Sensors that differ in threshold only then have nearly the same voxels.

    Sums run over all frames and spike pixels; luma is in [0, 1], averaged over the area of a spike
    pixel; r is the spikes of an exposure divided by its T steps. Two numbers a frame are kept, and
    the result does not depend on the order of the frames.
    """

    def __init__(self) -> None:
        self._sums: list[tuple[float, float]] = []

    def update(self, blur: NDArray[np.uint8], spikes: NDArray[np.number], steps: int) -> None:
        """Take in one exposure.

        Args:
            blur: uint8 (H, W, 3) RGB.
            spikes: (h, w), those of all steps with the shutter open.
            steps: T, the number of these steps.
        """
        total = spikes.astype(np.float64)
        gray = shrink(luma(blur), *total.shape).astype(np.float64)
        # Both sums are exact in float64 where areas are powers of two: integers over 4, say.
        light = float(np.vdot(gray, total)) / (255 * steps)
        self._sums.append((light, float(np.vdot(total, total)) / steps**2))

    def gain(self, name: str) -> float:
        """Return the gain of all exposures so far, > 0; theta for an ideal sensor.

        Args:
            name: name of the sequence, for the message.

        Raises:
            DataError: if there is not a single spike, or frames are black wherever there are some.
        """
        light, squares = zip(*self._sums, strict=True)
        products = math.fsum(light)
        if products == 0:
            raise DataError(
                f"{name}: not a single spike where the blurry frames ({len(light)}) show light, so "
                "nothing says how sensitive the sensor is; give frames and spikes of one scene"
            )
        return products / math.fsum(squares)
