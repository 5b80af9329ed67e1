"""Window attention by our own Triton kernels, for CUDA."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from vrtspike.models.windows import WindowPlan

_LARGEST_BLOCK = 64
_SMALLEST_DOT = 16
# Programs that sum the gradient of the bias; a few for each multiprocessor of a large GPU.
_BIAS_PROGRAMS = 2048


def triton_attention(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
    """Window attention whose scores never leave the chip; see :func:`explicit_attention`."""
    out, _ = _forward(
        qkv,
        # A bias of half precision is read twice as fast; the sum is made in float32.
        None if bias is None else bias.to(qkv.dtype),
        plan.query,
        plan.key,
        plan.out,
        plan.regions,
        len(plan.bounds) > 2,
        heads,
    )
    return out


def _block(tokens: int) -> int:
    """Tokens that one program treats at once."""
    return min(max(1 << (tokens - 1).bit_length(), _SMALLEST_DOT), _LARGEST_BLOCK)


def _constants(qkv: Tensor, query: Tensor, heads: int) -> dict[str, Any]:
    """Compile-time constants of all kernels."""
    width = qkv.shape[2] // 3 // heads
    block = _block(query.shape[1])
    return {
        "N": query.shape[1],
        "HEADS": heads,
        "D": width,
        "BLOCK_D": max(1 << (width - 1).bit_length(), _SMALLEST_DOT),
        "BLOCK": block,
        "num_warps": block // _SMALLEST_DOT,
        # Float32 in full: a model that asks for it wants its digits.
        "PRECISION": "ieee" if qkv.dtype == torch.float32 else "tf32",
    }


def _on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Triton launches on the current device, wherever the tensors are."""
    return torch.cuda.device_of(tensor)


@torch.library.custom_op("vrtspike::triton_attention", mutates_args=())
def _forward(
    qkv: Tensor,
    bias: Tensor | None,
    query: Tensor,
    key: Tensor,
    place: Tensor,
    regions: Tensor,
    masked: bool,
    heads: int,
) -> tuple[Tensor, Tensor]:
    from vrtspike.models.window_attention.triton_kernels import forward_kernel

    batch, length, width = qkv.shape
    windows, tokens = query.shape
    qkv = qkv.contiguous()
    bias = None if bias is None else bias.contiguous()
    out = qkv.new_empty(batch, length, width // 3)
    lse = qkv.new_empty(batch * windows, heads, tokens, dtype=torch.float32)
    blocks = -(-tokens // _block(tokens))
    with _on_device_of(qkv):
        forward_kernel[(batch * windows * heads * blocks,)](
            qkv,
            qkv if bias is None else bias,
            query,
            key,
            place,
            regions,
            out,
            lse,
            windows,
            length,
            (width // 3 // heads) ** -0.5,
            HAS_BIAS=bias is not None,
            MASKED=masked,
            **_constants(qkv, query, heads),
        )
    return out, lse


@_forward.register_fake
def _(qkv: Tensor, _: Tensor | None, query: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    batch, length, width = qkv.shape
    windows, tokens = query.shape
    lse = qkv.new_empty(batch * windows, rest[-1], tokens, dtype=torch.float32)
    return qkv.new_empty(batch, length, width // 3), lse


@torch.library.custom_op("vrtspike::triton_attention_backward", mutates_args=())
def _backward(
    grad: Tensor,
    qkv: Tensor,
    bias: Tensor | None,
    query: Tensor,
    key: Tensor,
    place: Tensor,
    regions: Tensor,
    out: Tensor,
    lse: Tensor,
    masked: bool,
    heads: int,
) -> tuple[Tensor, Tensor]:
    from vrtspike.models.window_attention.triton_kernels import (
        bias_kernel,
        key_kernel,
        query_kernel,
    )

    batch, length, width = qkv.shape
    windows, tokens = query.shape
    problems, blocks = batch * windows, -(-tokens // _block(tokens))
    qkv, grad = qkv.contiguous(), grad.contiguous()
    scale = (width // 3 // heads) ** -0.5
    table = qkv if bias is None else bias.contiguous()
    constants = {
        "HAS_BIAS": bias is not None,
        "MASKED": masked,
        **_constants(qkv, query, heads),
    }
    grads, delta = torch.empty_like(qkv), torch.empty_like(lse)
    common = (qkv, table, query, key, place, regions)
    sizes = (windows, length, scale)
    grid = (problems * heads * blocks,)
    with _on_device_of(qkv):
        query_kernel[grid](*common, out, lse, grad, delta, grads, *sizes, **constants)
        key_kernel[grid](*common, lse, grad, delta, grads, *sizes, **constants)
        if bias is None:
            return grads, lse.new_empty(0)
        grad_bias = lse.new_zeros(heads, tokens, tokens)
        tiles = heads * blocks * blocks
        share = -(-problems // max(_BIAS_PROGRAMS // tiles, 1))
        bias_kernel[(tiles, -(-problems // share))](
            *common, lse, grad, delta, grad_bias, problems, *sizes, share, **constants
        )
    return grads, grad_bias


@_backward.register_fake
def _(_: Tensor, qkv: Tensor, bias: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    shape = 0 if bias is None else bias.shape
    return torch.empty_like(qkv), qkv.new_empty(shape, dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:  # noqa: ANN401
    *tensors, ctx.masked, ctx.heads = inputs
    ctx.save_for_backward(*tensors, *output)


def _grads(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    qkv, bias, *rest = ctx.saved_tensors
    grads, grad_bias = _backward(grad, qkv, bias, *rest, ctx.masked, ctx.heads)
    bias_out = None if bias is None else grad_bias.to(bias.dtype)
    return grads, bias_out, None, None, None, None, None, None


_forward.register_autograd(_grads, setup_context=_save)
