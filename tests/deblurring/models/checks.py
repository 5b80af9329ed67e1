"""What several tests of models ask."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.weights import published_buffers
from vrtspike.deblurring.models.windows import WindowPlan


def explicit_attention(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
    """Window attention with every score written out, the definition; (B, L, 3C) -> (B, L, C)."""
    width = qkv.shape[2] // 3 // heads
    out = torch.empty_like(qkv[..., : heads * width])
    for mask, first, last in zip(plan.masks, plan.bounds, plan.bounds[1:], strict=False):
        for query, key, place in zip(
            plan.query[first:last], plan.key[first:last], plan.out[first:last], strict=True
        ):
            q, k, v = (
                part[:, at].unflatten(2, (heads, width)).transpose(1, 2)
                for part, at in zip(qkv.chunk(3, dim=-1), (query, key, key), strict=True)
            )
            scores = q @ k.transpose(-2, -1) / width**0.5 + mask
            weights = (scores if bias is None else scores + bias).softmax(dim=-1)
            out = out.index_copy(1, place, (weights @ v).transpose(1, 2).flatten(2))
    return out


def kept_by(run: Callable[[], object]) -> dict[int, Tensor]:
    """Tensors that autograd keeps of a call, by their place in memory."""
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return kept


def assert_same(found: list[Tensor], expected: list[Tensor], leaves: list[Tensor]) -> None:
    """Results and gradients are equal but for rounding."""
    torch.testing.assert_close(found, expected)
    grads = [torch.randn_like(t) for t in expected]
    torch.testing.assert_close(
        torch.autograd.grad(found, leaves, grads), torch.autograd.grad(expected, leaves, grads)
    )


def published_state_dict(vrt: VRT) -> dict[str, Tensor]:
    """The model's state as a published checkpoint names and shapes it."""
    return {**vrt.state_dict(), **published_buffers(vrt)}
