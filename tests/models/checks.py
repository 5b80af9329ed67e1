"""Checks for several tests of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.deblurring_settings.model import ModelSettings
from vrtspike.models.attention import WindowAttention, relative_position_index, sine_position_bias
from vrtspike.models.vrt import VRT
from vrtspike.models.vrt_checkpoints import published_buffers


def explicit_attention(layer: WindowAttention, x: Tensor, *, shifted: bool) -> Tensor:
    """A layer's attention with a score for each pair of tokens, the definition; shape as ``x``."""
    parts = [_one_kind(layer, x, shifted, m) for m in (True, False) if layer.mutual or not m]
    return layer.proj.forward(torch.cat(parts, dim=-1))


def _one_kind(layer: WindowAttention, x: Tensor, shifted: bool, mutual: bool) -> Tensor:
    full, size = torch.tensor(layer.window), torch.tensor(x.shape[1:4])
    used, shift = full.minimum(size), full // 2 * (size > full) * shifted
    used[0] = 2 if mutual else used[0]
    padded = -(-size // used) * used
    spare = [number for n in (padded - size).flip(0).tolist() for number in (0, n)]
    tokens = functional.pad(x, (0, 0, *spare)).flatten(1, 3)
    moved = (torch.cartesian_prod(*map(torch.arange, padded.tolist())) - shift) % padded
    place, wrapped = moved % used, moved + shift >= padded
    number = (place * torch.tensor([used[1] * used[2], used[2], 1])).sum(dim=1)
    together = (moved[:, None] // used == moved // used).all(dim=-1)
    visible = together & (place[:, None, 0] == place[:, 0]) if mutual else together
    bias = -100.0 * (wrapped[:, None] != wrapped).any(dim=-1)
    if mutual:
        code = sine_position_bias(*layer.window[1:], x.shape[-1]).view(*layer.window[1:], -1)
        q, k, v = layer.qkv_mut(tokens + code[place[:, 1], place[:, 2]].to(x.dtype)).chunk(3, -1)
        # The query is that of the token at the same place of the other frame.
        twin = together & ((number[:, None] - number).abs() == used[1] * used[2])
        q = q[:, twin.int().argmax(dim=1)]
    else:
        q, k, v = layer.qkv_self(tokens).chunk(3, dim=-1)
        pair = relative_position_index(layer.window)[number[:, None], number]
        bias = bias + layer.relative_position_bias_table[pair].permute(2, 0, 1)
    q, k, v = (t.unflatten(2, (layer.heads, -1)).transpose(1, 2) for t in (q, k, v))
    out = written_out(q, k, v, bias.masked_fill(~visible, -torch.inf)).transpose(1, 2).flatten(2)
    return out.unflatten(1, padded.tolist())[:, : size[0], : size[1], : size[2]]


def written_out(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Attention with every score written out; (..., heads, N, c) each, bias (heads or 1, N, N)."""
    return (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + bias).softmax(dim=-1) @ v


def kept_by(run: Callable[[], object]) -> dict[int, Tensor]:
    """Tensors that autograd keeps of a call, by their place in memory."""
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return kept


def assert_same(results: list[Tensor], expected: list[Tensor], leaves: list[Tensor]) -> None:
    """Results and gradients are equal but for rounding."""
    torch.testing.assert_close(results, expected)
    grads = [torch.randn_like(t) for t in expected]
    torch.testing.assert_close(
        torch.autograd.grad(results, leaves, grads), torch.autograd.grad(expected, leaves, grads)
    )


def published_settings(**arguments: Any) -> ModelSettings:
    """MODEL from arguments of the published class, which are the keys of MODEL.VRT in lower case.

    ``depths`` and ``window_size``, and names in upper case, are keys of MODEL. Nothing is
    recomputed unless arguments say so.
    """
    model = {
        "VRT_DEPTHS": arguments.pop("depths"),
        "WINDOW_SIZE": arguments.pop("window_size"),
        **{name: value for name, value in arguments.items() if name.isupper()},
        "VRT": {
            "USE_CHECKPOINT_ATTN": False,
            "USE_CHECKPOINT_FFN": False,
            **{name.upper(): value for name, value in arguments.items() if name.islower()},
        },
    }
    return ModelSettings.model_validate(model)


def published_vrt(**arguments: Any) -> VRT:
    """A VRT from arguments, see :func:`published_settings`."""
    return VRT(published_settings(**arguments))


def published_state_dict(vrt: VRT) -> dict[str, Tensor]:
    """The model's state as a published checkpoint names and shapes it."""
    return {**vrt.state_dict(), **published_buffers(vrt)}
