"""Compares the deformable kernels with the definition; runs in Triton's interpreter without a GPU.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys

import torch

from vrtspike.models.deform.agreement import Shape, largest_difference

# Small ones: the interpreter is slow. Groups and channels that are padded, and those that are not;
# tiles in part, more of them than are summed at once; fewer pixels than a tile, a single group.
CASES: tuple[tuple[torch.dtype, float, tuple[Shape, ...]], ...] = (
    (torch.float32, 1e-5, ((3, 5, 12, 5, 17), (1, 6, 3, 3, 2))),
    (torch.float16, 2e-3, ((4, 8, 32, 7, 9),)),
)


def main() -> int:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    wrong = 0
    for dtype, tolerance, shapes in CASES:
        difference = largest_difference(device, dtype, shapes)
        print(f"{dtype}: largest difference {difference:.2e} of the norm")
        wrong += not difference < tolerance
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
