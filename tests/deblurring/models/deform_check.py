"""Compares the deformable kernels with the definition; runs in Triton's interpreter without a GPU.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from vrtspike.deblurring.models.deform import kernel
from vrtspike.deblurring.models.deform.agreement import Shape, largest_difference

# Small ones: the interpreter is slow. Several clips, and frames between two others; groups and
# channels that are padded, and those that are not; tiles in part, more of them than are summed at
# once; fewer pixels than a tile, a single group.
CASES: tuple[tuple[torch.dtype, float, tuple[Shape, ...]], ...] = (
    (torch.float32, 1e-5, ((1, 3, 3, 5, 12, 3, 9), (1, 2, 1, 6, 3, 4, 5))),
    (torch.float16, 1e-3, ((2, 2, 4, 8, 32, 5, 5),)),
)


def check_declarations(device: torch.device) -> None:
    """Raises where results have another shape, type or stride than tensors without data would."""
    own = torch.ops.vrtspike
    x, grad = (torch.randn(1, 2, 2, 3, c, device=device).half() for c in (6, 8))
    raw = torch.randn(2, 2, 3, 9, 3, 2, device=device).half()
    shift, flow = (torch.randn(s, device=device) for s in ((9, 3, 2), (2, 2, 2, 3)))
    weight, bias = torch.randn(4, 6, 3, 3, device=device), torch.randn(4, device=device)
    inputs = (x, raw, shift, flow, weight)
    guide = own.alignment_guide(x, flow)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (own.deform_by_kernel, (*inputs, bias, 2.0)),
        (own.alignment_guide, (x, flow)),
    ]
    for learns in (True, False):
        wanted = [True, True, learns, learns, learns, learns]
        calls.append((own.deform_by_kernel_backward, (grad, *inputs, 2.0, wanted)))
        calls.append((own.alignment_guide_backward, (guide, x, flow, [True, learns])))
    for operation, arguments in calls:
        utils = ("test_schema", "test_faketensor")
        torch.library.opcheck(operation, arguments, test_utils=utils)


def main() -> int:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    check_declarations(device)
    wrong = 0
    # The interpreter has no products of bfloat16.
    cases = (*CASES, (torch.bfloat16, 1e-2, CASES[-1][2])) if device.type == "cuda" else CASES
    # Sampled values of all pairs of a clip at a time, and of one pair.
    for limit in (kernel._SAMPLED_BYTES, 1):
        kernel._SAMPLED_BYTES = limit
        for dtype, tolerance, shapes in cases:
            difference = largest_difference(device, dtype, shapes)
            print(f"{dtype}: largest difference {difference:.2e} of the norm")
            wrong += not difference < tolerance
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
