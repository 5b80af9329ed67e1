"""Window attention: scaled dot-product attention inside windows of a (D, H, W) map.

Source: shifted windows of Swin (Liu et al., 2021) in three dimensions, and the mutual attention of
two frames, as VRT uses them (Liang et al., 2022, "VRT: A Video Restoration Transformer").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from types import MappingProxyType

import torch
from torch import Tensor

from vrtspike.deblurring.models.ops.comparison import differences, isolated, largest
from vrtspike.deblurring.models.ops.dispatch import Compute, Operation, obstacle, uses_kernel
from vrtspike.deblurring.models.ops.window_attention.launch_options import holds_keys
from vrtspike.deblurring.models.ops.window_attention.pytorch_attention import (
    flex_window_attention,
    sdpa_attention,
)
from vrtspike.deblurring.models.ops.window_attention.recompute import recompute_attention
from vrtspike.deblurring.models.ops.window_attention.reference import reference_attention
from vrtspike.deblurring.models.ops.window_attention.triton_attention import triton_attention
from vrtspike.deblurring.models.ops.window_attention.windows import (
    Size3,
    WindowGeometry,
    WindowPlan,
    build_plan,
    clip_window,
)
from vrtspike.errors import ConfigError

IMPLEMENTATIONS: Mapping[str, Callable[[Tensor, Tensor | None, WindowPlan, int], Tensor]] = (
    MappingProxyType(
        {
            "explicit": reference_attention,
            "fused": sdpa_attention,
            "recompute": recompute_attention,
            "flex": flex_window_attention,
            "triton": triton_attention,
        }
    )
)
"""Implementations by the name a preset gives them."""


def choose_implementation(compute: Compute, x: Tensor, dtype: torch.dtype) -> str:
    """The implementation that runs: a key of :data:`IMPLEMENTATIONS`.

    ``auto`` takes the Triton kernels where they are used (:func:`uses_kernel`), else ``recompute``;
    in what ``torch.compile`` compiles ``fused``, at which a graph does not end.

    Args:
        compute: the settings of the model.
        x: any of the features, on the device in question.
        dtype: type of queries, keys and values.

    Raises:
        ConfigError: there is none of that name, or it cannot run here.
    """
    name = compute.attention
    if name != "auto" and name not in IMPLEMENTATIONS:
        known = ", ".join(["auto", *IMPLEMENTATIONS])
        raise ConfigError(f"unknown attention implementation {name!r}; there are: {known}")
    if name == "auto":
        if uses_kernel(OPERATION, x, dtype, compute):
            return "triton"
        return "fused" if torch.compiler.is_compiling() else "recompute"
    if name == "triton" and (reason := obstacle(OPERATION.name, x.device, dtype, compute)):
        raise ConfigError(f"attention implementation 'triton' cannot run: {reason}; use auto")
    if name == "flex" and x.device.type != "cuda":
        raise ConfigError(
            f"attention implementation 'flex' needs a CUDA device, found {x.device.type}; use auto"
        )
    return name


def window_attention(
    qkv: Tensor,
    bias: Tensor | None,
    plan: WindowPlan,
    heads: int,
    compute: Compute,
    keep: Tensor | None = None,
) -> Tensor:
    """softmax(q k^T / sqrt(channels of a head) + bias + mask) v in every window of a map.

    Args:
        qkv: (B, L, 3C), queries, keys and values of the L = D * H * W tokens of the padded map;
            within each third the heads come first, then the channels of a head.
        bias: (heads, N, N) added to the scores of every window of N tokens, or None.
        plan: the windows; tokens of different regions of a shifted window do not see each other.
        heads: attention heads; C must be a multiple.
        compute: the settings of the model.
        keep: (B,) float32; samples where it is 0 need not be computed, nobody reads their result.
            None: all are read.

    Returns:
        (B, L, C) in the order of the map.
    """
    name = choose_implementation(compute, qkv, qkv.dtype)
    if name == "triton" and not holds_keys(plan.tokens, qkv.shape[2] // 3 // heads):
        name = "recompute"
    if name == "triton":
        return triton_attention(qkv, bias, plan, heads, keep)
    return IMPLEMENTATIONS[name](qkv, bias, plan, heads)


# The windows of the published model, (size, mutual), on a map that they do not divide; some of 7,
# whose 245 tokens fill no whole blocks of a kernel; and small ones, as in the attention along time
# at each pixel, which take the smallest blocks.
_SIZE: Size3 = (6, 12, 20)
_WINDOWS: Sequence[tuple[Size3, bool]] = (
    ((2, 8, 8), True),
    ((2, 8, 8), False),
    ((6, 8, 8), False),
    ((5, 7, 7), False),
    ((1, 8, 8), False),
    ((6, 1, 1), False),
    ((2, 1, 2), True),
)
# A GPU sums the gradient of the bias over parts of the windows: here several windows each.
_SIZE_CUDA: Size3 = (6, 60, 92)
# Channels of a head in stages 1-7 and in stage 8.
_WIDTHS = (16, 20)
_HEADS = 2


def trial(device: torch.device, dtype: torch.dtype) -> float:
    """The largest difference of the kernels from the reference, as a share of the norm."""
    geometry = clip_window(_SIZE, (2, 8, 8), shifted=True, mutual=False)
    found = attention_differences(device, dtype, geometry, _WIDTHS[0], drops=True)
    sizes = (_SIZE, _SIZE_CUDA) if device.type == "cuda" else (_SIZE,)
    for size, width, (window, mutual), shifted in product(sizes, _WIDTHS, _WINDOWS, (False, True)):
        geometry = clip_window(size, window, shifted=shifted, mutual=mutual)
        found += attention_differences(device, dtype, geometry, width)
    return largest(found)


def attention_differences(
    device: torch.device,
    dtype: torch.dtype,
    geometry: WindowGeometry,
    width: int,
    *,
    biased: bool = True,
    drops: bool = False,
    batch: int = 2,
    heads: int = _HEADS,
) -> list[float]:
    """Differences of :func:`window_attention`, see :func:`differences`.

    Args:
        device: where to run it.
        dtype: type of queries, keys and values.
        geometry: map and windows.
        width: channels of each head.
        biased: self attention has a bias; mutual attention goes without.
        drops: the first sample is one that stochastic depth drops.
        batch: samples.
        heads: of attention.

    Returns:
        Of the result, and of the gradients of queries, keys and values and of the bias.
    """
    with isolated(device) as generator:
        plan = build_plan(geometry, device)
        keep = torch.arange(float(batch), device=device) if drops else None

        def run(
            compute: Compute, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None
        ) -> Tensor:
            qkv = torch.cat((q, k, v), dim=-1)
            out = window_attention(qkv, bias, plan, heads, compute, keep)
            return out[1:] if drops else out

        shapes = [(batch, plan.out.numel(), heads * width)] * 3
        if biased and not geometry.mutual:
            shapes.append((heads, plan.tokens, plan.tokens))
        inputs = [torch.randn(shape, device=device, generator=generator) for shape in shapes]
        return differences(run, inputs, dtype, rounded=len(inputs))


OPERATION = Operation("window_attention", trial)
