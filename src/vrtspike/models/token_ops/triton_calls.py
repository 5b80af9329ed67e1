"""Triton kernels of :mod:`.pointwise`, one pass over memory each, and their calls."""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def, import-untyped"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from vrtspike.models.token_ops.pointwise import EPSILON

_ROWS = 16
# Programs that sum the gradients of scale and shift; a few for each multiprocessor.
_NORM_PROGRAMS = 1024
_GATE_BLOCK = 1024


@triton.jit
def _normalise_kernel(
    x, scale, shift, out, mean, rstd, rows, epsilon,
    C: tl.constexpr, BLOCK_C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK_C)
    inside = (row < rows)[:, None] & (column < C)[None, :]
    place = row[:, None] * C + column[None, :]
    values = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    average = tl.sum(values, 1) / C
    centred = tl.where(inside, values - average[:, None], 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / C + epsilon)
    a = tl.load(scale + column, mask=column < C, other=0.0).to(tl.float32)
    b = tl.load(shift + column, mask=column < C, other=0.0).to(tl.float32)
    result = centred * inverse[:, None] * a[None, :] + b[None, :]
    tl.store(out + place, result.to(out.dtype.element_ty), mask=inside)
    tl.store(mean + row, average, mask=row < rows)
    tl.store(rstd + row, inverse, mask=row < rows)


@triton.jit
def _normalise_backward_kernel(
    grad, x, mean, rstd, scale, grad_x, grad_scale, grad_shift, rows, share,
    C: tl.constexpr, BLOCK_C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    column = tl.arange(0, BLOCK_C)
    a = tl.load(scale + column, mask=column < C, other=0.0).to(tl.float32)
    sum_scale = tl.zeros((BLOCK_C,), tl.float32)
    sum_shift = tl.zeros((BLOCK_C,), tl.float32)
    for step in range(0, share):
        row = (program.to(tl.int64) * share + step) * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < C)[None, :]
        place = row[:, None] * C + column[None, :]
        values = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(grad + place, mask=inside, other=0.0).to(tl.float32)
        average = tl.load(mean + row, mask=row < rows, other=0.0)
        inverse = tl.load(rstd + row, mask=row < rows, other=0.0)
        normed = tl.where(inside, (values - average[:, None]) * inverse[:, None], 0.0)
        sum_scale += tl.sum(g * normed, 0)
        sum_shift += tl.sum(g, 0)
        scaled = g * a[None, :]
        first = tl.sum(scaled, 1) / C
        second = tl.sum(scaled * normed, 1) / C
        result = (scaled - first[:, None] - normed * second[:, None]) * inverse[:, None]
        tl.store(grad_x + place, result.to(grad_x.dtype.element_ty), mask=inside)
    tl.store(grad_scale + program * C + column, sum_scale, mask=column < C)
    tl.store(grad_shift + program * C + column, sum_shift, mask=column < C)


@triton.jit
def _gelu(x):
    """GELU and its derivative, exact (by the error function)."""
    normal = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
    density = tl.exp(-0.5 * x * x) * 0.3989422804014327
    return x * normal, normal + x * density


@triton.jit
def _gate_kernel(hidden, out, size, H: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < size
    place = (index // H) * (2 * H) + index % H
    first = tl.load(hidden + place, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(hidden + place + H, mask=inside, other=0.0).to(tl.float32)
    gated, _ = _gelu(first)
    tl.store(out + index, (gated * second).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _gate_backward_kernel(
    grad, hidden, out, grad_hidden, size, H: tl.constexpr, BLOCK: tl.constexpr
):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < size
    place = (index // H) * (2 * H) + index % H
    first = tl.load(hidden + place, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(hidden + place + H, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(grad + index, mask=inside, other=0.0).to(tl.float32)
    gated, slope = _gelu(first)
    kind = grad_hidden.dtype.element_ty
    tl.store(out + index, (gated * second).to(out.dtype.element_ty), mask=inside)
    tl.store(grad_hidden + place, (g * second * slope).to(kind), mask=inside)
    tl.store(grad_hidden + place + H, (g * gated).to(kind), mask=inside)


def _widths(x: Tensor) -> dict[str, int]:
    channels = x.shape[1]
    return {"C": channels, "BLOCK_C": triton.next_power_of_2(channels), "ROWS": _ROWS}


def normalise(
    x: Tensor, scale: Tensor, shift: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """See :func:`vrtspike.models.token_ops.pointwise.normalise`."""
    x = x.contiguous()
    rows = x.shape[0]
    out = torch.empty_like(x, dtype=dtype)
    mean, rstd = x.new_empty(2, rows, 1, dtype=torch.float32)
    _normalise_kernel[(triton.cdiv(rows, _ROWS),)](
        x, scale, shift, out, mean, rstd, rows, EPSILON, **_widths(x)
    )
    return out, mean, rstd


def normalise_backward(
    grad: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """See :func:`vrtspike.models.token_ops.pointwise.normalise_backward`."""
    x, grad = x.contiguous(), grad.contiguous()
    rows, channels = x.shape
    share = triton.cdiv(triton.cdiv(rows, _ROWS), _NORM_PROGRAMS)
    programs = triton.cdiv(triton.cdiv(rows, _ROWS), share)
    grad_x = torch.empty_like(x)
    sums = x.new_empty(2, programs, channels, dtype=torch.float32)
    _normalise_backward_kernel[(programs,)](
        grad, x, mean, rstd, scale, grad_x, sums[0], sums[1], rows, share, **_widths(x)
    )
    grad_scale, grad_shift = sums.sum(1)
    return grad_x, grad_scale, grad_shift


def gate(hidden: Tensor) -> Tensor:
    """See :func:`vrtspike.models.token_ops.pointwise.gate`."""
    rows, double = hidden.shape
    out = hidden.new_empty(rows, double // 2)
    size = out.numel()
    _gate_kernel[(triton.cdiv(size, _GATE_BLOCK),)](
        hidden.contiguous(), out, size, H=double // 2, BLOCK=_GATE_BLOCK
    )
    return out


def gate_backward(grad: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """See :func:`vrtspike.models.token_ops.pointwise.gate_backward`."""
    hidden = hidden.contiguous()
    out, grad_hidden = torch.empty_like(grad), torch.empty_like(hidden)
    size = out.numel()
    _gate_backward_kernel[(triton.cdiv(size, _GATE_BLOCK),)](
        grad.contiguous(), hidden, out, grad_hidden, size, H=hidden.shape[1] // 2, BLOCK=_GATE_BLOCK
    )
    return out, grad_hidden
