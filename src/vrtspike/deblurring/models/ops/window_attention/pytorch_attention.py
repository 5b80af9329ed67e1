"""Window attention by PyTorch's own fused kernels: SDPA and ``flex_attention``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from vrtspike.deblurring.models.compilation import with_recompile_limit
from vrtspike.deblurring.models.ops.window_attention.reference import (
    gather,
    joined_heads,
    scatter,
)
from vrtspike.deblurring.models.ops.window_attention.windows import MASKED_SCORE, WindowPlan

_SMALLEST_HEAD = 16
# Each size of map and window, masked or not, is a kernel of its own, about 30 in the published
# model and some for the attention along time. Beyond the limit, 8 if not given, PyTorch writes all
# scores out.
_KINDS = 128
# Kernels give each attention problem a row of the CUDA grid, which has 65535 of them.
_MOST_PROBLEMS = 65535


def _in_parts(run: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """``run(first, *tensors)`` of parts of the problems, ``first`` the number of the first one."""
    parts = zip(*(t.split(_MOST_PROBLEMS) for t in tensors), strict=True)
    results = [run(i * _MOST_PROBLEMS, *part) for i, part in enumerate(parts)]
    return results[0] if len(results) == 1 else torch.cat(results)


def sdpa_attention(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
    """Window attention by ``scaled_dot_product_attention``, a call for all windows of a mask.

    Which kernel runs is PyTorch's choice, by device, precision and channels of a head; on a CPU it
    keeps all scores, because the bias is learned. Arguments as in :func:`reference_attention`.
    """
    results = []
    for mask, (start, stop) in zip(plan.masks, itertools.pairwise(plan.bounds), strict=True):
        query, key = plan.query[start:stop], plan.key[start:stop]
        scores_bias = mask[None, None] if bias is None else (bias + mask)[None]
        q, k, v = (gather(qkv, at, heads, i) for i, at in enumerate((query, key, key)))
        mask_and_bias = scores_bias.to(qkv.dtype)

        def run(_: int, *qkv: Tensor, mask: Tensor = mask_and_bias) -> Tensor:
            q, k, v = qkv
            return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

        results.append(joined_heads(_in_parts(run, q, k, v), stop - start))
    return scatter(torch.cat(results, dim=1), plan)


@lru_cache(maxsize=1)
def flex_kernel(backend: str | Callable[..., Any] = "inductor") -> Any:  # noqa: ANN401 - has no type
    """The compiled ``flex_attention``; without compilation all scores would be written out."""
    compiled = torch.compile(flex_attention, dynamic=False, backend=backend)
    return with_recompile_limit(compiled, _KINDS)


def flex_window_attention(qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int) -> Tensor:
    """Window attention with bias and mask looked up inside the generated kernel.

    On a CPU the uncompiled function runs, which writes the scores out and has no backward pass.
    Arguments as in :func:`reference_attention`.
    """
    windows, width = len(plan.query), qkv.shape[2] // 3 // heads
    # Kernels need a power of two of channels.
    padding = (0, max(1 << (width - 1).bit_length(), _SMALLEST_HEAD) - width)

    attend = flex_kernel() if qkv.is_cuda else flex_attention

    def run(first: int, *qkv: Tensor) -> Tensor:
        def score(value: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            if bias is not None:
                value = value + bias[h, i, j]
            if len(plan.bounds) > 2:
                window = (b + first) % windows
                differ = plan.regions[window, i] != plan.regions[window, j]
                value = value + torch.where(differ, MASKED_SCORE, 0.0)
            return value

        out: Tensor = attend(*qkv, score_mod=score, scale=width**-0.5)
        return out

    places = (plan.query, plan.key, plan.key)
    q, k, v = (functional.pad(gather(qkv, at, heads, i), padding) for i, at in enumerate(places))
    return scatter(joined_heads(_in_parts(run, q, k, v)[..., :width], windows), plan)
