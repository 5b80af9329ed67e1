"""The end of a convolution: taps in time summed where they fall, bias, residual, activation."""

from __future__ import annotations

from vrtspike.deblurring.models.tap_sums.choice import activated, activates, sum_of_taps

__all__ = ["activated", "activates", "sum_of_taps"]
