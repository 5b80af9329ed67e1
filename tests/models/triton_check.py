"""Compares the Triton kernels with the definition; runs in Triton's interpreter without a GPU.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys

import torch

from vrtspike.models.window_attention.agreement import largest_difference
from vrtspike.models.window_attention.triton_attention import triton_attention

TOLERANCE = 1e-5


def main() -> int:
    if torch.cuda.is_available():
        difference = largest_difference(triton_attention, torch.device("cuda"), torch.float32)
    else:
        # Small windows: the interpreter is slow. The last is that of the attention along time,
        # whose bias is the score of the distance in time.
        windows = (((2, 4, 4), True), ((6, 4, 4), False), ((6, 1, 1), False))
        cpu = torch.device("cpu")
        difference = largest_difference(triton_attention, cpu, torch.float32, (3, 5, 8), windows)
    print(f"largest difference: {difference:.2e} of the norm")
    return int(not difference < TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
