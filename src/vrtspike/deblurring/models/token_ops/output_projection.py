"""Linear layer and residual after window attention by our own Triton kernels, for CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.kernel_launch import on_device_of, precision
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.token_ops.launch import Launch
from vrtspike.deblurring.models.token_ops.maps import Layout, blocks, constants_of
from vrtspike.deblurring.models.token_ops.weight_gradients import Product, summed

_WARPS = {"num_warps": 8, "num_stages": 2}
OUTPUT: Launch = MappingProxyType({"BLOCK": 64, **_WARPS})
OUTPUT_ROWS: Launch = MappingProxyType({"BLOCK": 128, **_WARPS})


def triton_output(
    x: Tensor,
    layer: nn.Linear,
    own: Tensor,
    mutual: Tensor | None,
    maps: Layout,
    keep: Tensor | None = None,
) -> Tensor:
    """``x + keep * layer([mutual, own])``, with results of attention cropped to the map.

    Args:
        x: (B, D, H, W, C), contiguous.
        layer: C channels, or 2C with ``mutual``, to C.
        own: (B, tokens of the padded map, C), of any type.
        mutual: likewise, or None.
        maps: of :func:`layout`.
        keep: (B,) float32, the factor of each sample's branch. None: 1 for all.

    Returns:
        The shape of ``x``, in the wider of its type and that of the products.
    """
    rows, dtype = x.flatten(1, 3), autocast_dtype(x)
    out, _ = _output(rows, keep, layer.weight, layer.bias, own, mutual, maps, dtype)
    return out.view(x.shape)


@torch.library.custom_op("vrtspike::triton_output", mutates_args=())
def _output(
    x: Tensor,
    keep: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    own: Tensor,
    mutual: Tensor | None,
    maps: list[int],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """The result, and the weight as kernels take it (:func:`halves`)."""
    from vrtspike.deblurring.models.token_ops.projection_kernels import output_kernel

    x, own = x.contiguous(), own.contiguous()
    samples, length, channels = x.shape
    out = torch.empty_like(x, dtype=torch.promote_types(x.dtype, dtype))
    weights = halves(weight, dtype)
    with on_device_of(x):
        output_kernel[(-(-length // OUTPUT["BLOCK"]), samples)](
            x,
            x if keep is None else keep,
            weights[-1],
            weights[0],
            bias,
            own,
            own if mutual is None else mutual.contiguous(),
            out,
            *maps[:7],
            MUTUAL=mutual is not None,
            KEEP=keep is not None,
            PRECISION=precision(dtype),
            **constants_of(maps, channels),
            **OUTPUT,
        )
    return out, weights


def halves(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The columns of mutual attention, if the weight has them, and of self attention, (n, C, C)."""
    channels = weight.shape[0]
    found = halves_like(weight, dtype)
    torch._foreach_copy_(list(found), list(weight.split(channels, 1)))
    return found


@_output.register_fake
def _(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    out = torch.empty_like(x, dtype=torch.promote_types(x.dtype, rest[-1]))
    return out, halves_like(rest[1], rest[-1])


def halves_like(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The shape of :func:`halves`."""
    channels, fan_in = weight.shape
    return weight.new_empty(fan_in // channels, channels, channels, dtype=dtype)


@torch.library.custom_op("vrtspike::triton_output_backward", mutates_args=())
def _output_backward(
    grad: Tensor,
    keep: Tensor | None,
    weights: Tensor,
    own: Tensor,
    mutual: Tensor | None,
    maps: list[int],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of both results of attention (the second maybe empty); of weight, then bias."""
    from vrtspike.deblurring.models.token_ops.projection_kernels import output_rows_kernel

    grad, own = grad.contiguous(), own.contiguous()
    mutual = None if mutual is None else mutual.contiguous()
    samples, _, channels = grad.shape
    both = mutual is not None
    grad_own = torch.empty_like(own)
    grad_mutual = own.new_empty(0) if mutual is None else torch.empty_like(mutual)
    longest = max(maps[1], maps[2] if both else 0)
    scaled = grad.new_empty(samples, longest, channels, dtype=dtype)
    grid = (blocks(maps, both, OUTPUT_ROWS), samples)
    by_rows = grad.new_empty(grid[0] * samples, channels, dtype=torch.float32)
    with on_device_of(grad):
        output_rows_kernel[grid](
            grad,
            grad if keep is None else keep,
            weights[-1],
            weights[0],
            grad_own,
            grad_mutual,
            scaled,
            by_rows,
            *maps[:7],
            MUTUAL=both,
            KEEP=keep is not None,
            PRECISION=precision(dtype),
            **constants_of(maps, channels),
            **OUTPUT_ROWS,
        )
    fan_in = channels * len(weights)
    products = [Product(scaled, own, maps[1], fan_in - channels, fan_in)]
    if mutual is not None:
        products.append(Product(scaled, mutual, min(maps[1:3]), 0, fan_in))
    return grad_own, grad_mutual, summed(products, by_rows, keep, channels, weights.numel())


@_output_backward.register_fake
def _(grad: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
    _, weights, own, mutual, *_ = rest
    grad_mutual = own.new_empty(0) if mutual is None else torch.empty_like(mutual)
    sums = weights.new_empty(weights.numel() + weights.shape[1], dtype=torch.float32)
    return torch.empty_like(own), grad_mutual, sums


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:  # noqa: ANN401
    _, keep, _, _, own, mutual, ctx.maps, ctx.dtype = inputs
    ctx.save_for_backward(keep, output[1], own, mutual)
    ctx.set_materialize_grads(False)  # of the weights as kernels take them


def output_gradients(
    grad: Tensor, saved: Sequence[Tensor | None], maps: Layout, dtype: torch.dtype
) -> list[Tensor | None]:
    """Gradients of weight, bias and both results of attention from that of the result.

    Args:
        grad: (B, tokens, C).
        saved: factors or None, :func:`halves`, results of self and of mutual attention or None.
        maps: of :func:`layout`.
        dtype: type of the products.
    """
    own, mutual, sums = _output_backward(grad, *saved, maps, dtype)
    channels = grad.shape[2]
    weight, bias = sums.split((len(sums) - channels, channels))
    return [weight.view(channels, -1), bias, own, mutual if mutual.numel() else None]


def _grads(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    return grad, None, *output_gradients(grad, ctx.saved_tensors, ctx.maps, ctx.dtype), None, None


_output.register_autograd(_grads, setup_context=_save)
