"""Window attention through PyTorch's ``flex_attention``."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from vrtspike.deblurring.models.recompile_limit import with_recompile_limit
from vrtspike.deblurring.models.windows import MASKED_SCORE, WindowPlan

_SMALLEST_HEAD = 16
# Each size of map and window, masked or not, is a kernel of its own, about 30 in the published
# model and some for the attention along time. Beyond the limit, 8 if not given, PyTorch writes all
# scores out.
_KINDS = 128


@lru_cache(maxsize=1)
def generator(backend: str | Callable[..., Any] = "inductor") -> Any:  # noqa: ANN401 - has no type
    """The kernel generator; without compilation all scores would be written out."""
    compiled = torch.compile(flex_attention, dynamic=False, backend=backend)
    return with_recompile_limit(compiled, _KINDS)


def flex_window_attention(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
    """Window attention with bias and mask looked up inside the generated kernel.

    On a CPU the uncompiled function runs, which writes the scores out and has no backward pass.
    Arguments as in :func:`explicit_attention`.
    """
    batch, _, width = qkv.shape
    channels = width // 3
    windows = plan.query.shape[0]
    head_width = channels // heads

    def gather(positions: Tensor, third: int) -> Tensor:
        part = qkv[..., third * channels : (third + 1) * channels]
        rows = part.index_select(1, positions.flatten())
        x = rows.view(batch * windows, plan.tokens, heads, head_width).transpose(1, 2)
        return functional.pad(x, (0, _padded(head_width) - head_width))

    def score(value: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if bias is not None:
            value = value + bias[h, i, j]
        if len(plan.bounds) > 2:
            regions = plan.regions
            differ = regions[b % windows, i] != regions[b % windows, j]
            value = value + torch.where(differ, MASKED_SCORE, 0.0)
        return value

    run = generator() if qkv.is_cuda else flex_attention
    out = run(
        gather(plan.query, 0),
        gather(plan.key, 1),
        gather(plan.key, 2),
        score_mod=score,
        scale=head_width**-0.5,
    )[..., :head_width]
    result = qkv.new_empty(batch, qkv.shape[1], channels)
    rows = out.transpose(1, 2).reshape(batch, -1, channels)
    return result.index_copy(1, plan.out.flatten().to(torch.int64), rows)


def _padded(width: int) -> int:
    """Channels of a head as the kernels need them: a power of two."""
    return max(1 << (width - 1).bit_length(), _SMALLEST_HEAD)
