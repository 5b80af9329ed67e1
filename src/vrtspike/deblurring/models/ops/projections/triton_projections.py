"""Linear layers before and after attention by our own Triton kernels, for CUDA in half precision.

The norm and the projections of self and mutual attention take one pass over the tokens, by
W(LN(x) + p) = W LN(x) + W p, where p, the code of a place in a window, has few values.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vrtspike.deblurring.models.mixed_precision import product_over_rows
from vrtspike.deblurring.models.ops.launch import launch, tile
from vrtspike.deblurring.models.ops.token_layout import (
    EPSILON,
    Layout,
    Sizes,
    row_constants,
    width_with_one,
)

_WARPS = {"num_warps": 8, "num_stages": 2}
PACKING: Sizes = MappingProxyType({"BLOCK_O": 16, "num_warps": 4})
INPUT: Sizes = MappingProxyType({"BLOCK": 128, "BLOCK_O": 64, **_WARPS})
OUTPUT: Sizes = MappingProxyType({"BLOCK": 64, **_WARPS})
# Several tiles of float32 at once, so fewer rows. Registers hold two programs: one computes
# while another loads.
_FEW_ROWS = {"BLOCK": 32, "num_warps": 4, "num_stages": 1}
INPUT_ROWS: Sizes = MappingProxyType({"BLOCK_O": 64, **_FEW_ROWS})
OUTPUT_ROWS: Sizes = MappingProxyType(_FEW_ROWS)


@torch.compiler.disable
def triton_projections(
    x: Tensor,
    norm: nn.LayerNorm,
    own: nn.Linear,
    mutual: nn.Linear | None,
    code: Tensor | None,
    layout: Layout,
    dtype: torch.dtype,
    keep: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """``own(pad(norm(x)))`` and ``mutual(pad(norm(x)) + code)``.

    Args:
        x: (B, tokens, C).
        norm: layer norm over the channels with the default epsilon.
        own: C to O channels.
        mutual: C to O channels, or None.
        code: (places in a window, C), a constant; None without ``mutual``.
        layout: of the map and of the padded map.
        dtype: type of the products.
        keep: (B,) float32; where it is 0 the sample's projections are zeros, and so have to be
            gradients of them. None: all are made.

    Returns:
        ``x`` itself, to be used from here on: its gradient is added to that of the projections in
        the same pass; the projections (B, tokens of the padded map, O), the second empty without
        ``mutual``.
    """
    second = (None, None) if mutual is None else (mutual.weight, mutual.bias)
    through, first, last = _Projections.apply(
        x, norm.weight, norm.bias, own.weight, own.bias, *second, code, keep, layout, dtype
    )
    return through, first, last


class _Projections(torch.autograd.Function):
    """Keeps the tokens, their moments and the packed weights."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:  # noqa: ANN401
        x, scale, shift, w_own, b_own, w_mutual, b_mutual, code, keep, layout, dtype = inputs
        from vrtspike.deblurring.models.ops.projections.projection_kernels import input_kernel

        contiguous = x.contiguous()
        samples, _, channels = x.shape
        outputs, coded = w_own.shape[0], w_mutual is not None
        own = x.new_empty(samples, layout.padded, outputs, dtype=dtype)
        mutual = torch.empty_like(own if coded else own[:0])
        moments = x.new_empty(samples, layout.tokens, 2, dtype=torch.float32)
        packed = _packed(w_own, b_own, w_mutual, b_mutual, dtype)
        table = moments
        if coded:
            # What the weights make of the code of each place in a window.
            with torch.autocast(x.device.type, enabled=False):
                table = functional.linear(code.float(), w_mutual.float())
        grid = (_blocks(layout, INPUT), samples)
        factors = moments if keep is None else keep
        tensors = (contiguous, factors, scale, shift, packed[0], packed[-1], table)
        flags = {"MUTUAL": coded, "KEEP": keep is not None, "EPSILON": EPSILON}
        options = {"OUT": outputs, **flags, **row_constants(channels), **INPUT}
        launch(input_kernel, grid, *tensors, own, mutual, moments, *layout.numbers, **options)
        ctx.save_for_backward(contiguous, scale, shift, code, keep, moments, packed)
        ctx.layout, ctx.outputs = layout, outputs
        return x.view_as(x), own, mutual

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, scale, shift, code, keep, moments, packed = ctx.saved_tensors
        from vrtspike.deblurring.models.ops.projections.projection_kernels import input_rows_kernel

        layout, outputs, coded = ctx.layout, ctx.outputs, len(packed) == 2
        through, grad_own, grad_mutual = (grad.contiguous() for grad in grads)
        (samples, _, channels), dtype = x.shape, packed.dtype
        width = width_with_one(channels)
        grad_x = torch.empty_like(x)
        normed = x.new_empty(samples, layout.padded, width, dtype=dtype)
        with_code = torch.empty_like(normed if coded else normed[:0])
        grid = (_blocks(layout, INPUT_ROWS), samples)
        by_rows = x.new_empty(grid[0] * samples, 2 * channels, dtype=torch.float32)
        factors = moments if keep is None else keep
        codes = moments if code is None else code.float()
        tensors = (x, factors, moments, scale, shift, packed[0], packed[-1], codes)
        grads = (grad_own, grad_mutual, through)
        results = (grad_x, normed, with_code, by_rows)
        flags = {"MUTUAL": coded, "KEEP": keep is not None}
        options = {"WIDTH": width, "OUT": outputs, **flags, **row_constants(channels), **INPUT_ROWS}
        launch(input_rows_kernel, grid, *tensors, *grads, *results, *layout.numbers, **options)
        own = _with_bias(product_over_rows(grad_own, normed, torch.float32), channels)
        mutual: tuple[Tensor | None, Tensor | None] = (None, None)
        if coded:
            mutual = _with_bias(product_over_rows(grad_mutual, with_code, torch.float32), channels)
        return grad_x, *by_rows.sum(0).split(channels), *own, *mutual, None, None, None, None


def _with_bias(sums: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Gradients of weight and bias: tokens had a one after their channels."""
    return sums[:, :channels], sums[:, channels]


def _blocks(layout: Layout, sizes: Sizes) -> int:
    """Blocks of the padded map."""
    return -(-layout.padded // sizes["BLOCK"])


def _packed(
    w_own: Tensor,
    b_own: Tensor,
    w_mutual: Tensor | None,
    b_mutual: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """Weights and biases of one or both projections as kernels take them, (1 or 2, rows, tile)."""
    from vrtspike.deblurring.models.ops.projections.projection_kernels import packing_kernel

    outputs, channels = w_own.shape
    second = (w_own, b_own) if w_mutual is None or b_mutual is None else (w_mutual, b_mutual)
    # Rows are a multiple of the blocks of loops over them.
    rows = -(-outputs // INPUT["BLOCK_O"]) * INPUT["BLOCK_O"]
    layers, columns = 1 if w_mutual is None else 2, tile(width_with_one(channels))
    packed = w_own.new_empty(layers, rows, columns, dtype=dtype)
    tensors = [t.contiguous() for t in (w_own, b_own, *second)]
    options = {"C": channels, "BLOCK_C": columns, "OUT": outputs, "MUTUAL": layers == 2, **PACKING}
    grid = (rows // PACKING["BLOCK_O"],)
    launch(packing_kernel, grid, *tensors, packed[0], packed[-1], **options)
    return packed


@torch.compiler.disable
def triton_output(
    x: Tensor,
    layer: nn.Linear,
    own: Tensor,
    mutual: Tensor | None,
    layout: Layout,
    dtype: torch.dtype,
    keep: Tensor | None = None,
) -> Tensor:
    """``x + keep * layer([mutual, own])``, with results of attention cropped to the map.

    Args:
        x: (B, tokens, C).
        layer: C channels, or 2C with ``mutual``, to C.
        own: (B, tokens of the padded map, C), of any type.
        mutual: likewise, or None.
        layout: of the map and of the padded map.
        dtype: type of the products.
        keep: (B,) float32, the factor of each sample's branch. None: 1 for all.

    Returns:
        The shape of ``x``, in the wider of its type and that of the products.
    """
    out: Tensor = _Output.apply(x, keep, layer.weight, layer.bias, own, mutual, layout, dtype)
    return out


class _Output(torch.autograd.Function):
    """Keeps the results of attention and the weight."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:  # noqa: ANN401
        x, keep, weight, bias, own, mutual, layout, dtype = inputs
        from vrtspike.deblurring.models.ops.projections.projection_kernels import output_kernel

        ctx.type_own = own.dtype
        # Rounded here, not by the product of the backward pass: half as much is kept.
        x, own = x.contiguous(), own.to(dtype).contiguous()
        mutual = None if mutual is None else mutual.contiguous()
        samples, length, channels = x.shape
        out = torch.empty_like(x, dtype=torch.promote_types(x.dtype, dtype))
        # The columns of mutual attention, if the weight has them, and of self attention.
        columns = weight.unflatten(1, (-1, channels)).movedim(1, 0)
        # One copy, also where the type is the same: Tensor.to would then return what it was given.
        weights = weight.new_empty(columns.shape, dtype=dtype).copy_(columns)
        grid = (-(-length // OUTPUT["BLOCK"]), samples)
        factors = bias if keep is None else keep
        second = own if mutual is None else mutual
        tensors = (x, factors, weights[-1], weights[0], bias, own, second, out)
        flags = {"MUTUAL": mutual is not None, "KEEP": keep is not None}
        options = {**flags, **row_constants(channels), **OUTPUT}
        launch(output_kernel, grid, *tensors, layout.tokens, layout.padded, **options)
        ctx.save_for_backward(keep, weights, own, mutual)
        ctx.layout = layout
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        keep, weights, own, mutual = ctx.saved_tensors
        from vrtspike.deblurring.models.ops.projections.projection_kernels import (
            output_rows_kernel,
        )

        layout, both = ctx.layout, mutual is not None
        grad = grad.contiguous()
        samples, _, channels = grad.shape
        grad_own = torch.empty_like(own, dtype=ctx.type_own)
        grad_mutual = torch.empty_like(mutual) if both else None
        scaled = grad.new_empty(samples, layout.padded, channels, dtype=weights.dtype)
        grid = (_blocks(layout, OUTPUT_ROWS), samples)
        by_rows = grad.new_empty(grid[0] * samples, channels, dtype=torch.float32)
        factors = by_rows if keep is None else keep
        results = (grad_own, grad_own if grad_mutual is None else grad_mutual, scaled, by_rows)
        tensors = (grad, factors, weights[-1], weights[0], *results)
        flags = {"MUTUAL": both, "KEEP": keep is not None}
        options = {**flags, **row_constants(channels), **OUTPUT_ROWS}
        launch(output_rows_kernel, grid, *tensors, layout.tokens, layout.padded, **options)
        weight = product_over_rows(scaled, own, torch.float32)
        if both:
            crossed = product_over_rows(scaled, mutual, torch.float32)
            weight = torch.cat((crossed, weight), dim=1)
        return grad, None, weight, by_rows.sum(0), grad_own, grad_mutual, None, None
