"""Compares the Triton kernels of sums of taps with their definition, in Triton's interpreter.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys

import torch

from vrtspike.deblurring.models.tap_sums.agreement import largest_difference
from vrtspike.deblurring.models.tap_sums.triton_sums import triton_sum

TOLERANCES = {torch.float32: 1e-6, torch.float16: 1e-3}


def main() -> int:
    # Memory that nobody has written holds NaN, so what is read of it shows.
    torch.use_deterministic_algorithms(True)
    agrees = True
    for dtype, tolerance in TOLERANCES.items():
        difference = largest_difference(torch.device("cpu"), dtype)
        print(f"{dtype}: largest difference {difference:.2e} of the norm")
        agrees &= difference < tolerance
    kept = keeps_what_is_no_number()
    print(f"NaN is kept: {kept}")
    return int(not (agrees and kept))


def keeps_what_is_no_number() -> bool:
    """A broken value must show in the loss, also behind a ReLU."""
    taps = torch.zeros(1, 1, 1, 2, 3)
    taps[..., 0, 1] = torch.nan
    out = triton_sum(taps, None, None, slope=0.0)
    return out.isnan().flatten().tolist() == [True, False]


if __name__ == "__main__":
    sys.exit(main())
