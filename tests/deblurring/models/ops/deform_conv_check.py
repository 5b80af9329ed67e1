"""Compares the deformable kernels with the reference; runs in Triton's interpreter without a GPU.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any
from unittest import mock

import torch
import triton
import triton.language as tl
from torch import Tensor

from vrtspike.deblurring.models.ops.comparison import isolated, relative_errors
from vrtspike.deblurring.models.ops.deform_conv import operation, triton_deform
from vrtspike.deblurring.models.ops.deform_conv.kernels import _corner
from vrtspike.deblurring.models.ops.deform_conv.operation import Shape, deform_differences

# The interpreter is slow, and has no products of bfloat16.
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TOLERANCES = {torch.float16: 1e-3, **({torch.bfloat16: 1e-2} if DEVICE.type == "cuda" else {})}
MAGNITUDE = 10.0
QUICK: Shape = (2, 2, 3, 5, 4, 2, 3)
# Groups and channels that are padded, and those that are not; several clips and frames between two
# others; several tiles in both directions, all of them ragged; the layouts of both presets.
SHAPES: tuple[Shape, ...] = (
    (1, 3, 3, 5, 12, 3, 17),
    (2, 2, 4, 8, 32, 9, 5),
    (1, 2, 16, 6, 96, 2, 3),
    (1, 2, 1, 8, 16, 9, 33),
)

by_kernel = partial(operation.by_kernel, max_magnitude=MAGNITUDE)
by_reference = partial(operation.by_reference, max_magnitude=MAGNITUDE)


def inputs_of(shape: Shape) -> list[Tensor]:
    """Features, hidden values, last weight and bias, flow, weight and bias in float32."""
    clips, frames, groups, channels, fan_out, *size = shape
    pairs, fan_in = 2 * clips * (frames - 1), groups * channels
    shapes = (
        *((clips, frames, *size, fan_in), (pairs, fan_in, *size), (groups * 27, fan_in, 3, 3)),
        *((groups * 27,), (pairs, 2, *size), (fan_out, fan_in, 3, 3), (fan_out,)),
    )
    generator = torch.Generator(DEVICE).manual_seed(1)
    inputs = [torch.randn(s, device=DEVICE, generator=generator) for s in shapes]
    # Raw offsets that half precision has exactly.
    inputs[1:3] = inputs[1].round(), inputs[2].round() / 32
    inputs[4] *= 5
    return inputs


def check_shape(shape: Shape) -> None:
    """Results and all gradients are those of the reference."""
    for dtype, tolerance in TOLERANCES.items():
        found = deform_differences(DEVICE, dtype, shape)
        print(f"{shape}, {dtype}: {max(found):.2e} of the norm")
        assert max(found) < tolerance, (shape, dtype, found)
        assert len(found) == 8


def half_inputs(shape: Shape = QUICK) -> list[Tensor]:
    """Inputs of one type, which want gradients."""
    return [t.half().requires_grad_() for t in inputs_of(shape)]


def gradients(inputs: list[Tensor], grad: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(by_kernel(*inputs), inputs, grad))


def check_pieces() -> None:
    """Sampled values of one pair of frames at a time give the same sums."""
    inputs = half_inputs((2, 3, 2, 8, 16, 2, 3))
    grad = torch.randn_like(by_kernel(*inputs))
    expected = gradients(inputs, grad)
    with mock.patch.object(triton_deform, "_SAMPLED_BYTES", 1):
        found = gradients(inputs, grad)
    assert max(relative_errors(found, expected)) < 1e-3


def check_parts() -> None:
    """A gradient that is part of another has the results of its copy."""
    inputs = half_inputs((2, 2, 2, 3, 4, 2, 3))
    part = torch.randn(2, 2, 2, 3, 24, device=DEVICE).half()[..., 8:16]
    for grad in (part, part.transpose(2, 3).contiguous().transpose(2, 3)):
        found, expected = gradients(inputs, grad), gradients(inputs, grad.contiguous())
        assert max(relative_errors(found, expected)) < 1e-3


def check_frozen() -> None:
    """Flow, weights or features without a gradient change nothing of the others."""
    inputs = half_inputs()
    grad = torch.randn_like(by_kernel(*inputs))
    expected = gradients(inputs, grad)
    for frozen in ((4, 5, 6), (0,), (1, 2, 3)):
        some = [t.detach().requires_grad_(i not in frozen) for i, t in enumerate(inputs)]
        by_kernel(*some).backward(grad)
        for i, (leaf, gradient) in enumerate(zip(some, expected, strict=True)):
            if i in frozen:
                assert leaf.grad is None
            else:
                assert leaf.grad is not None
                torch.testing.assert_close(leaf.grad, gradient, rtol=1e-2, atol=1e-2)


def check_far_flow() -> None:
    """Far outside of the picture there is nothing but the bias, and no gradient."""
    inputs = half_inputs()
    with torch.no_grad():
        inputs[4].copy_(inputs[4].sign() * 6e4)
    out = by_kernel(*inputs)
    later, earlier = out.chunk(2, dim=-1)
    assert torch.equal(later[:, 0], inputs[6].expand_as(later[:, 0]))
    assert torch.equal(earlier[:, 1], inputs[6].expand_as(earlier[:, 1]))
    *others, bias = torch.autograd.grad(out.sum(), inputs)
    assert not any(t.any() for t in others)
    assert bias.all()


def check_edges() -> None:
    """A sample between the last pixels and what is beyond fades out at all four borders."""
    x, hidden, last_weight, last_bias, flow, weight, bias = inputs_of((1, 2, 1, 8, 16, 2, 2))
    for shift in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5):
        for axis in (0, 1):
            flow.zero_()
            flow[:, axis] = shift
            given = (x, hidden, last_weight, 0 * last_bias, flow, weight, bias)
            half = [t.half().requires_grad_() for t in given]
            exact = [t.detach().float().requires_grad_() for t in half]
            out, expected = by_kernel(*half), by_reference(*exact)
            grad = torch.randn_like(out)
            found = [out, *torch.autograd.grad(out, half, grad)]
            wanted = [expected, *torch.autograd.grad(expected, exact, grad.float())]
            pairs = [(a, b) for a, b in zip(found, wanted, strict=True) if b.norm() > 0]
            assert len(pairs) == 8
            assert max(relative_errors(*zip(*pairs, strict=True))) < 2e-3, (shift, axis)


@triton.jit
def _read(x: Any, out: Any, G: tl.constexpr) -> None:
    """``out`` is ``x``, (4, G, 8)."""
    place = tl.arange(0, 4)[:, None] * (G * 8) + (tl.arange(0, G) * 8)[None, :]
    tl.store(out + place[:, :, None] + tl.arange(0, 8)[None, None, :], _corner(x + place))


def check_bfloat16() -> None:
    """Words of two numbers are read as both."""
    x = torch.randn(4, 2, 8, device=DEVICE).bfloat16()
    x[0, 0] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 3e38, -1e-40, 1.0, -1.0])
    out = torch.empty_like(x, dtype=torch.float32)
    _read[(1,)](x, out, 2)
    assert torch.equal(out, x.float())


def main() -> None:
    with isolated(DEVICE):
        check_shape(QUICK)
        check_far_flow()
        check_bfloat16()
        if "quick" in sys.argv:
            return
        for check in (check_pieces, check_parts, check_frozen, check_edges):
            check()
        for shape in SHAPES:
            check_shape(shape)


if __name__ == "__main__":
    main()
