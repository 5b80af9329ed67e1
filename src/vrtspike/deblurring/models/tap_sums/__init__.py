"""The end of a convolution over time: its taps summed where they fall, residual and ReLU."""

from __future__ import annotations

from vrtspike.deblurring.models.tap_sums.choice import sum_of_taps

__all__ = ["sum_of_taps"]
