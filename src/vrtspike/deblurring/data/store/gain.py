"""How sensitive a spike sensor is: the brightness that a spike rate of 1 stands for.

An integrate-and-fire pixel with threshold theta fires at a rate of grey / theta, so one scene gives
half the spikes to a sensor with twice the threshold. Mean spikes and blurry frame show the same
light, up to that factor: the gain is its least-squares estimate over a sequence, and gain x rate
is what the model sees. Sensors that differ in threshold only then give it nearly the same voxels.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError
from vrtspike.images import luma, shrink


class GainMeter:
    """Gathers the frames of a sequence: gain = sum(luma(blur) r) / sum(r^2), r the mean rate.

    Sums run over all frames and spike pixels; luma is in [0, 1], averaged over the area of a spike
    pixel; r is the spikes of an exposure divided by its T steps. Two numbers a frame are kept, and
    the result does not depend on the order of the frames.
    """

    def __init__(self) -> None:
        self._products: list[float] = []
        self._squares: list[float] = []

    def add(self, blur: NDArray[np.uint8], counts: NDArray[np.uint8], spike_frames: int) -> None:
        """Take in one exposure.

        Args:
            blur: uint8 (H, W, 3) RGB.
            counts: uint8 (K, h, w), spikes per bin; H x W is h x w times a whole number.
            spike_frames: T.
        """
        spikes = counts.sum(axis=0, dtype=np.float64)
        gray = shrink(luma(blur), *spikes.shape).astype(np.float64)
        # Both sums are exact in float64 where areas are powers of two: integers over 4, say.
        self._products.append(float(np.vdot(gray, spikes)) / (255 * spike_frames))
        self._squares.append(float(np.vdot(spikes, spikes)) / spike_frames**2)

    def gain(self, name: str) -> float:
        """The gain of what was taken in, > 0; theta for an ideal sensor.

        Args:
            name: of the sequence, for the message.

        Raises:
            DataError: if there is not a single spike, or frames are black wherever there are some.
        """
        squares, products = math.fsum(self._squares), math.fsum(self._products)
        count = len(self._squares)
        if squares == 0:
            raise DataError(
                f"{name}: not a single spike in {count} frames, so nothing says how sensitive the "
                "sensor is; give the spikes that belong to these frames"
            )
        if products == 0:
            raise DataError(
                f"{name}: the blurry frames ({count}) are black wherever there are spikes; give "
                "the frames that belong to these spikes"
            )
        return products / squares
