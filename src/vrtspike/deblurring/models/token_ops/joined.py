"""Projection after attention and feed-forward layer by one Triton kernel of our own, for CUDA."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.kernel_launch import on_device_of, precision
from vrtspike.deblurring.models.layers import GEGLU, FeedForward
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.token_ops.maps import Layout, constants_of
from vrtspike.deblurring.models.token_ops.output_projection import (
    halves,
    halves_like,
    output_gradients,
)
from vrtspike.deblurring.models.token_ops.pointwise import EPSILON
from vrtspike.deblurring.models.token_ops.triton_feed_forward import (
    each,
    feed_forward_gradients,
    folded,
    folded_like,
    forward_launch,
    layers_of,
)


def triton_joined(
    x: Tensor,
    layer: nn.Linear,
    own: Tensor,
    mutual: Tensor | None,
    maps: Layout,
    norm: nn.LayerNorm,
    mlp: GEGLU | FeedForward,
    keep: Tensor | None = None,
    keep_fed: Tensor | None = None,
) -> Tensor:
    """:func:`.triton_output`, whose result goes through :func:`.triton_feed_forward`.

    For products of half precision on large GPUs: elsewhere the tiles of both do not fit into a
    program. Arguments are those of the two; ``keep_fed`` has the factors of the second.
    """
    gate, value, last = layers_of(mlp)
    out, *_ = _forward(
        x.flatten(1, -2),
        keep,
        layer.weight,
        layer.bias,
        own,
        mutual,
        keep_fed,
        norm.weight,
        norm.bias,
        gate.weight,
        gate.bias,
        None if value is None else value.weight,
        None if value is None else value.bias,
        last.weight,
        last.bias,
        maps,
        autocast_dtype(x),
    )
    return out.view(x.shape)


@torch.library.custom_op("vrtspike::triton_joined", mutates_args=())
def _forward(
    x: Tensor,
    keep: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    own: Tensor,
    mutual: Tensor | None,
    keep_fed: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    w_gate: Tensor,
    b_gate: Tensor,
    w_value: Tensor | None,
    b_value: Tensor | None,
    w_out: Tensor,
    b_out: Tensor,
    maps: list[int],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The result; what the feed-forward layer is given, its tokens' moments; weights as laid."""
    from vrtspike.deblurring.models.token_ops.joined_kernels import joined_kernel

    x, own = x.contiguous(), own.contiguous()
    samples, length, channels = x.shape
    between = torch.empty_like(x, dtype=torch.promote_types(x.dtype, dtype))
    out = torch.empty_like(between)
    moments = x.new_empty(samples, length, 2, dtype=torch.float32)
    projection = halves(weight, dtype)
    weights = folded(w_gate, b_gate, w_value, b_value, w_out, scale, shift, dtype)
    launch = forward_launch(x.device, dtype)
    with on_device_of(x):
        joined_kernel[(-(-length // launch["BLOCK"]), samples)](
            x,
            x if keep is None else keep,
            projection[-1],
            projection[0],
            bias,
            own,
            own if mutual is None else mutual.contiguous(),
            between,
            x if keep_fed is None else keep_fed,
            *each(weights),
            b_out,
            out,
            moments,
            *maps[:7],
            H=w_gate.shape[0],
            MUTUAL=mutual is not None,
            GATED=w_value is not None,
            KEEP=keep is not None,
            KEEP_FED=keep_fed is not None,
            EPSILON=EPSILON,
            PRECISION=precision(dtype),
            **constants_of(maps, channels),
            **launch,
        )
    return out, between, moments, projection, weights


@_forward.register_fake
def _(x: Tensor, *rest: Any) -> tuple[Tensor, ...]:  # noqa: ANN401
    _, weight, *_ = rest
    w_gate, w_value, dtype = rest[8], rest[10], rest[-1]
    out, between = (
        torch.empty_like(x, dtype=torch.promote_types(x.dtype, dtype)) for _ in range(2)
    )
    moments = x.new_empty(*x.shape[:2], 2, dtype=torch.float32)
    laid = halves_like(weight, dtype), folded_like(w_gate, w_value, dtype)
    return out, between, moments, *laid


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401
    _, keep, _, _, own, mutual, *fed, ctx.maps, ctx.dtype = inputs
    keep_fed, scale, shift, w_gate, _, w_value, *_ = fed
    _, between, moments, projection, weights = output
    ctx.save_for_backward(
        *(keep, projection, own, mutual),
        *(between, keep_fed, scale, shift, w_gate, w_value, moments, weights),
    )
    ctx.set_materialize_grads(False)  # of the results from which nothing learns


def _grads(ctx: Any, grad: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    saved = ctx.saved_tensors  # a checkpoint gives them once
    between, *fed = feed_forward_gradients(grad, saved[4:], ctx.dtype)
    assert between is not None
    weight, bias, own, mutual = output_gradients(between, saved[:4], ctx.maps, ctx.dtype)
    return between, None, weight, bias, own, mutual, None, *fed, None, None


_forward.register_autograd(_grads, setup_context=_save)
