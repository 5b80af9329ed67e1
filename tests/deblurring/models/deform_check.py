"""Compares the deformable kernels with the definition; runs in Triton's interpreter without a GPU.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import triton
import triton.language as tl

from vrtspike.deblurring.models.deform import kernel
from vrtspike.deblurring.models.deform.agreement import (
    Shape,
    _guides_compared,
    largest_difference,
)
from vrtspike.deblurring.models.deform.triton_kernels import _corner
from vrtspike.deblurring.models.kernel_trials import largest

# Small ones: the interpreter is slow. Several clips, and frames between two others; groups and
# channels that are padded, and those that are not; tiles in part, more of them than are summed at
# once; fewer pixels than a tile, a single group; channels of the guide in several parts.
CASES: tuple[tuple[torch.dtype, float, tuple[Shape, ...]], ...] = (
    (torch.float32, 1e-5, ((1, 3, 3, 5, 12, 3, 9), (1, 2, 1, 6, 3, 4, 5))),
    (torch.float16, 1e-3, ((2, 2, 4, 8, 32, 5, 5), (1, 2, 6, 8, 16, 2, 3))),
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
        calls.append((own.alignment_guide_backward, (x, guide, x, flow, [True, learns])))
    for operation, arguments in calls:
        utils = ("test_schema", "test_faketensor")
        torch.library.opcheck(operation, arguments, test_utils=utils)


@triton.jit
def _read(x: Any, out: Any, G: tl.constexpr, C: tl.constexpr) -> None:
    """``out`` is ``x``, (4, G, C)."""
    place = tl.arange(0, 4)[:, None] * (G * C) + (tl.arange(0, G) * C)[None, :]
    tl.store(out + place[:, :, None] + tl.arange(0, C)[None, None, :], _corner(x + place, C))


def check_bfloat16(device: torch.device) -> None:
    """Raises where bfloat16 is not read; the interpreter has all but its products."""
    x = torch.randn(4, 2, 8, device=device).bfloat16()
    x[0, 0] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 3e38, -1e-40, 1.0, -1.0])
    out = torch.empty_like(x, dtype=torch.float32)
    _read[(1,)](x, out, 2, 8)
    if not torch.equal(out, x.float()):
        raise AssertionError("a corner's channels are not those in memory")
    for channels in (48, 12):
        x = torch.randn(1, 3, 4, 5, channels, device=device)
        flow = 5 * torch.randn(4, 2, 4, 5, device=device)
        found = _guides_compared(x, flow, torch.bfloat16)
        if not largest(found) < 1e-2:
            raise AssertionError(f"the guide of {channels} channels differs by {largest(found)}")


def check_parts(device: torch.device) -> None:
    """Raises where a gradient that is part of another has other results than its copy."""
    x = torch.randn(2, 2, 2, 3, 6, device=device).half()
    raw = torch.randn(4, 2, 3, 9, 3, 2, device=device).half()
    shift, flow = (torch.randn(s, device=device) for s in ((9, 3, 2), (4, 2, 2, 3)))
    weight = torch.randn(4, 6, 3, 3, device=device)
    part = torch.randn(2, 2, 2, 3, 24, device=device).half()[..., 8:16]
    for grad in (part, part.transpose(2, 3).contiguous().transpose(2, 3)):
        found, expected = (
            torch.ops.vrtspike.deform_by_kernel_backward(
                g, x, raw, shift, flow, weight, 2.0, [True] * 6
            )
            for g in (grad, grad.contiguous())
        )
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


def main() -> int:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    check_declarations(device)
    check_bfloat16(device)
    check_parts(device)
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
