"""Norm and linear layers before window attention by our own Triton kernels, for CUDA.

The norm and the projections of self and mutual attention take one pass over the tokens, by
W(LN(x) + p) = W LN(x) + W p, where p, the code of a place in a window, has few values.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.kernel_launch import on_device_of, precision, tile
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.token_ops.launch import Launch, with_one
from vrtspike.deblurring.models.token_ops.maps import Layout, blocks, constants_of
from vrtspike.deblurring.models.token_ops.pointwise import EPSILON
from vrtspike.deblurring.models.token_ops.weight_gradients import Product, summed

_WARPS = {"num_warps": 8, "num_stages": 2}
# Rows of weights as they are laid are a multiple of the blocks of loops over them.
ROWS = 64
# Rows of a program that lays, and places in a window and channels that it treats at a time.
LAY: Launch = MappingProxyType({"BLOCK_O": 16, "BLOCK_P": 64, "BLOCK_K": 32, "num_warps": 4})
INPUT: Launch = MappingProxyType({"BLOCK": 128, "BLOCK_O": 64, **_WARPS})
# Several tiles of float32 at once: half the rows.
INPUT_ROWS: Launch = MappingProxyType({"BLOCK": 64, "BLOCK_O": 64, **_WARPS})


def triton_projections(
    x: Tensor,
    norm: nn.LayerNorm,
    own: nn.Linear,
    mutual: nn.Linear | None,
    code: Tensor | None,
    maps: Layout,
    keep: Tensor | None = None,
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """``own(pad(norm(x)))`` and ``mutual(pad(norm(x)) + code)``.

    Args:
        x: (B, D, H, W, C), contiguous.
        norm: layer norm over the channels with the default epsilon.
        own: C to 3C channels.
        mutual: C to 3C channels, or None.
        code: (places in a window, C) float32, a constant; None without ``mutual``.
        maps: of :func:`layout`.
        keep: (B,) float32; where it is 0 the sample's projections hold anything, and gradients of
            them are not looked at. None: all are made.

    Returns:
        ``x`` itself twice, for the residual of the block and for one around several blocks: the
        gradients of both are added to that of the projections in the same pass; the projections
        (B, tokens of the padded map, 3C), the second empty without ``mutual``.
    """
    second = (None, None) if mutual is None else (mutual.weight, mutual.bias)
    through, around, first, last = _Projections.apply(
        x.flatten(1, 3),
        norm.weight,
        norm.bias,
        own.weight,
        own.bias,
        *second,
        code,
        keep,
        maps,
        autocast_dtype(x),
    )
    return (through.view(x.shape), around.view(x.shape)), first, last


class _Projections(torch.autograd.Function):
    """The tokens, handed through twice, and the projections."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:  # noqa: ANN401
        x, scale, shift, _, _, _, _, code, keep, ctx.maps, ctx.dtype = inputs
        own, mutual, moments, laid = _input(*inputs)
        ctx.save_for_backward(x, scale, shift, code, keep, moments, laid)
        ctx.shapes = own.shape, mutual.shape
        # Zeros for ways that the tokens do not take would be read like any gradient.
        ctx.set_materialize_grads(False)
        return x.view_as(x), x.view_as(x), own, mutual

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        saved = ctx.saved_tensors  # a checkpoint gives them once
        x, outputs = saved[0], ctx.shapes[0][2]
        channels = x.shape[2]
        through, *around = [g for g in grads[:2] if g is not None] or [torch.zeros_like(x)]
        own, mutual = (
            x.new_zeros(shape, dtype=ctx.dtype) if g is None and shape.numel() else g
            for g, shape in zip(grads[2:], ctx.shapes, strict=True)
        )
        x, sums = _input_backward(
            through, around[0] if around else None, own, mutual, *saved, ctx.maps, ctx.dtype
        )
        layers = (outputs * channels, outputs) * len(saved[-1])
        *layers, scale, shift = sums.split((*layers, channels, channels))
        layers[::2] = (weight.view(outputs, channels) for weight in layers[::2])
        second = layers[2:] or [None, None]
        return x, scale, shift, *layers[:2], *second, None, None, None, None


@torch.library.custom_op("vrtspike::triton_projections", mutates_args=())
def _input(
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    w_own: Tensor,
    b_own: Tensor,
    w_mutual: Tensor | None,
    b_mutual: Tensor | None,
    code: Tensor | None,
    keep: Tensor | None,
    maps: list[int],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Both projections, the second maybe empty, moments (B, tokens, 2), and weights as laid."""
    from vrtspike.deblurring.models.token_ops.projection_kernels import input_kernel

    x = x.contiguous()
    samples, _, channels = x.shape
    outputs = w_own.shape[0]
    coded = w_mutual is not None
    out_own = x.new_empty(samples, maps[1], outputs, dtype=dtype)
    out_mutual = x.new_empty((samples, maps[2], outputs) if coded else 0, dtype=dtype)
    moments = x.new_empty(samples, maps[0], 2, dtype=torch.float32)
    laid, table = _laid(w_own, b_own, w_mutual, b_mutual, code, dtype)
    with on_device_of(x):
        input_kernel[(blocks(maps, coded, INPUT), samples)](
            x,
            x if keep is None else keep,
            scale,
            shift,
            laid[0],
            laid[-1],
            table,
            out_own,
            out_mutual,
            moments,
            *maps,
            OUT=outputs,
            MUTUAL=coded,
            KEEP=keep is not None,
            EPSILON=EPSILON,
            PRECISION=precision(dtype),
            **constants_of(maps, channels),
            **INPUT,
        )
    return out_own, out_mutual, moments, laid


def _laid(
    w_own: Tensor,
    b_own: Tensor,
    w_mutual: Tensor | None,
    b_mutual: Tensor | None,
    code: Tensor | None,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Weights and biases of one or both projections as kernels take them, (1 or 2, rows, tile).

    Then what the second makes of the codes, (places, 3C) float32.
    """
    from vrtspike.deblurring.models.token_ops.projection_kernels import lay_kernel

    outputs, channels = w_own.shape
    second = (w_own, b_own) if w_mutual is None or b_mutual is None else (w_mutual, b_mutual)
    laid = w_own.new_empty(_laid_shape(w_own, w_mutual), dtype=dtype)
    _, rows, columns = laid.shape
    places = 0 if code is None else len(code)
    table = w_own.new_empty(places, outputs, dtype=torch.float32)
    with on_device_of(w_own):
        lay_kernel[(rows // LAY["BLOCK_O"],)](
            *(t.contiguous() for t in (w_own, b_own, *second)),
            w_own if code is None else code.contiguous(),
            laid[0],
            laid[-1],
            table,
            C=channels,
            BLOCK_C=columns,
            OUT=outputs,
            PLACES=places,
            MUTUAL=w_mutual is not None,
            **LAY,
        )
    return laid, table


def _laid_shape(w_own: Tensor, w_mutual: Tensor | None) -> tuple[int, int, int]:
    outputs, channels = w_own.shape
    rows = -(-outputs // ROWS) * ROWS
    return 1 if w_mutual is None else 2, rows, tile(with_one(channels))


@_input.register_fake
def _(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # noqa: ANN401
    _, _, w_own, _, w_mutual, *_, maps, dtype = rest
    samples, outputs = x.shape[0], w_own.shape[0]
    own = x.new_empty(samples, maps[1], outputs, dtype=dtype)
    mutual = 0 if w_mutual is None else (samples, maps[2], outputs)
    moments = x.new_empty(samples, maps[0], 2, dtype=torch.float32)
    laid = x.new_empty(_laid_shape(w_own, w_mutual), dtype=dtype)
    return own, x.new_empty(mutual, dtype=dtype), moments, laid


@torch.library.custom_op("vrtspike::triton_projections_backward", mutates_args=())
def _input_backward(
    through: Tensor,
    around: Tensor | None,
    grad_own: Tensor,
    grad_mutual: Tensor | None,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    code: Tensor | None,
    keep: Tensor | None,
    moments: Tensor,
    laid: Tensor,
    maps: list[int],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Gradients of x, and of weight and bias of each projection, then of scale and shift."""
    from vrtspike.deblurring.models.token_ops.projection_kernels import input_rows_kernel

    x, through, grad_own = x.contiguous(), through.contiguous(), grad_own.contiguous()
    grad_mutual = None if grad_mutual is None else grad_mutual.contiguous()
    samples, _, channels = x.shape
    outputs, width, coded = grad_own.shape[2], with_one(channels), grad_mutual is not None
    grad_x = torch.empty_like(x)
    normed = x.new_empty(samples, maps[1], width, dtype=dtype)
    with_code = x.new_empty((samples, maps[2], width) if coded else 0, dtype=dtype)
    grid = (blocks(maps, coded, INPUT_ROWS), samples)
    by_rows = x.new_empty(grid[0] * samples, 2 * channels, dtype=torch.float32)
    with on_device_of(x):
        input_rows_kernel[grid](
            x,
            x if keep is None else keep,
            moments,
            scale,
            shift,
            laid[0],
            laid[-1],
            scale if code is None else code,
            grad_own,
            grad_own if grad_mutual is None else grad_mutual,
            through,
            through if around is None else around.contiguous(),
            grad_x,
            normed,
            with_code,
            by_rows,
            *maps,
            WIDTH=width,
            OUT=outputs,
            MUTUAL=coded,
            KEEP=keep is not None,
            AROUND=around is not None,
            PRECISION=precision(dtype),
            **constants_of(maps, channels),
            **INPUT_ROWS,
        )
    size = outputs * (channels + 1)
    products = [Product(grad_own, normed, maps[1], 0, channels)]
    if grad_mutual is not None:
        products.append(Product(grad_mutual, with_code, maps[2], size, channels))
    return grad_x, summed(products, by_rows, keep, channels, size * len(products))


@_input_backward.register_fake
def _(through: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    _, grad_own, _, x, _, _, _, _, _, laid, *_ = rest
    outputs, channels = grad_own.shape[2], x.shape[2]
    size = len(laid) * outputs * (channels + 1) + 2 * channels
    return torch.empty_like(x), x.new_empty(size, dtype=torch.float32)
