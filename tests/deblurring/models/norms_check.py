"""Compares the Triton kernels of layer norms with their definition, in Triton's interpreter.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys

import torch

from vrtspike.deblurring.models.norms.agreement import largest_difference

TOLERANCES = {torch.float32: 2e-6, torch.float16: 1e-3}


def main() -> int:
    # Memory that nobody has written holds NaN, so what is read of it shows.
    torch.use_deterministic_algorithms(True)
    agrees = True
    for dtype, tolerance in TOLERANCES.items():
        difference = largest_difference(torch.device("cpu"), dtype)
        print(f"{dtype}: largest difference {difference:.2e} of the norm")
        agrees &= difference < tolerance
    return int(not agrees)


if __name__ == "__main__":
    sys.exit(main())
