"""Does an implementation of window attention compute on this machine what the definition says?

Kernels are compiled for the device they meet, by compilers of many versions, so ``auto`` takes none
on trust: it compares results and gradients with the definition before the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import product

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_trials import isolated, largest, shares_of_norm
from vrtspike.deblurring.models.kernel_trust import Trial, is_trusted
from vrtspike.deblurring.models.window_attention.explicit import explicit_attention
from vrtspike.deblurring.models.windows import (
    Size3,
    WindowGeometry,
    WindowPlan,
    build_plan,
    clip_window,
)

AttentionFunction = Callable[[Tensor, Tensor | None, WindowPlan, int], Tensor]
KeepingAttention = Callable[..., Tensor]
"""An :data:`AttentionFunction` with an argument ``keep``; see :func:`.triton_attention`."""
Windows = Sequence[tuple[Size3, bool]]

# The windows of the published model, (size, mutual), on a map that they do not divide; some of 7,
# whose 245 tokens fill no whole blocks of a kernel; and small ones, as in the attention along time
# at each pixel, which take the smallest blocks.
_SIZE: Size3 = (6, 12, 20)
# A GPU sums the gradient of the bias over shares of the windows: here several windows each, and so
# many that a program has all heads of a small one.
_SIZE_CUDA: Size3 = (6, 60, 92)
_WINDOWS: Windows = (
    ((2, 8, 8), True),
    ((2, 8, 8), False),
    ((6, 8, 8), False),
    ((5, 7, 7), False),
    ((1, 8, 8), False),
    ((6, 1, 1), False),
    ((2, 1, 2), True),
)
_HEADS = 2
# Of queries and of later keys: by its square grow scores, the largest by hundreds.
_GROWTH = 10.0
# Channels of a head in stages 1-7 and in stage 8.
_WIDTHS = (16, 20)


def agrees(attention: AttentionFunction, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether an implementation runs on a device and agrees with the definition there.

    Args:
        attention: the implementation.
        device: where to run it.
        dtype: type of queries, keys and values.

    Returns:
        False with a warning that says why, when it fails or differs.
    """
    name = getattr(attention, "__name__", str(attention))
    return is_trusted(name, _trial(attention), device, dtype)


@lru_cache(maxsize=16)
def _trial(attention: AttentionFunction) -> Trial:
    """One object for each implementation, by which answers are remembered."""
    return partial(largest_difference, attention)


def largest_difference(
    attention: AttentionFunction,
    device: torch.device,
    dtype: torch.dtype,
    size: Size3 | None = None,
    windows: Windows = _WINDOWS,
) -> float:
    """The largest difference from the definition, of results and gradients, as a share of the norm.

    Args:
        attention: the implementation.
        device: where to run it.
        dtype: type of queries, keys and values; the definition is computed in float32.
        size: map (D, H, W); if not given a small one, on a GPU a larger one, too.
        windows: sizes (Wd, Wh, Ww), and whether attention is mutual; each also with a shift.

    Returns:
        NaN where any result or gradient holds one.
    """
    differences = [difference_of_growing(attention, device, dtype)]
    sizes = [size or _SIZE] + [_SIZE_CUDA] * (size is None and device.type == "cuda")
    for whole, width, kind, shifted in product(sizes, _WIDTHS, windows, (False, True)):
        window, mutual = kind
        geometry = clip_window(whole, window, shifted=shifted, mutual=mutual)
        differences += differences_in(attention, device, dtype, geometry, width)
    return largest(differences)


def differences_in(
    attention: AttentionFunction,
    device: torch.device,
    dtype: torch.dtype,
    geometry: WindowGeometry,
    width: int,
    batch: int = 2,
) -> list[float]:
    """Differences from the definition as shares of the norm, on one map.

    Args:
        attention: the implementation.
        device: where to run it.
        dtype: type of queries, keys and values; the definition is computed in float32.
        geometry: map and windows.
        width: channels of each of two heads.
        batch: samples.

    Returns:
        Of the result and of the gradients of queries, keys and values, of each by itself, and of
        the bias, which mutual attention goes without.
    """
    generator = torch.Generator(device).manual_seed(0)
    with isolated(device):
        plan = build_plan(geometry, device)
        shapes = [(batch, plan.out.numel(), 3 * _HEADS * width)]
        if not geometry.mutual:
            shapes.append((_HEADS, plan.tokens, plan.tokens))
        inputs = [torch.randn(s, device=device, generator=generator) for s in shapes]
        found = _results(attention, [t.to(dtype) for t in inputs], plan)
        # The same rounded inputs, so that only the computation differs.
        rounded = [t.to(dtype).float() for t in inputs]
        expected = _results(explicit_attention, rounded, plan)
    return shares_of_norm(found, expected)


def difference_of_growing(
    attention: AttentionFunction, device: torch.device, dtype: torch.dtype
) -> float:
    """The difference of results where later keys have far larger scores than the first.

    Weights relative to those of the first overflow any type. Gradients are not compared: nearly all
    of the attention is on one token each, so that they are differences of nearly equal numbers.
    """
    geometry = clip_window((2, 8, 16), (2, 8, 8), shifted=False, mutual=False)
    generator = torch.Generator(device).manual_seed(0)
    with isolated(device), torch.no_grad():
        plan = build_plan(geometry, device)
        shape, width = (1, plan.out.numel(), 3 * _HEADS * _WIDTHS[0]), plan.tokens
        qkv = torch.randn(shape, device=device, generator=generator)
        queries, keys, _ = qkv.chunk(3, dim=-1)
        queries *= _GROWTH
        keys[:, shape[1] // 2 :] *= _GROWTH
        bias = torch.randn(_HEADS, width, width, device=device, generator=generator)
        qkv, bias = qkv.to(dtype), bias.to(dtype)
        found = attention(qkv, bias, plan, _HEADS)
        expected = explicit_attention(qkv.float(), bias.float(), plan, _HEADS)
    return largest(shares_of_norm([found], [expected]))


def difference_of_kept(
    attention: KeepingAttention, device: torch.device, dtype: torch.dtype
) -> float:
    """The largest difference from the definition where one of two samples is left out.

    That one holds NaN, of which nothing may come through.

    Args:
        attention: an implementation that leaves out samples.
        device: where to run it.
        dtype: type of queries, keys and values.

    Returns:
        as a share of the norm, of the result and the gradients of the other sample, and of that of
        the bias; NaN where any holds one.
    """
    geometry = clip_window(_SIZE, (2, 8, 8), shifted=True, mutual=False)
    generator = torch.Generator(device).manual_seed(0)
    with isolated(device):
        plan = build_plan(geometry, device)
        shape, width = (1, plan.out.numel(), 3 * _HEADS * _WIDTHS[0]), plan.tokens
        qkv = torch.randn(shape, device=device, generator=generator).to(dtype)
        bias = torch.randn(_HEADS, width, width, device=device, generator=generator).to(dtype)
        both = torch.cat((torch.full_like(qkv, torch.nan), qkv))
        keep = torch.tensor([0.0, 1.25], device=device)
        # What the kernels do not write holds NaN, where a device gives freed memory again.
        del [torch.full_like(both, torch.nan) for _ in range(4)][:]
        found = _results(partial(attention, keep=keep), [both, bias], plan, drop_first=True)
        rounded = [qkv.float(), bias.float()]
        expected = _results(explicit_attention, rounded, plan)
    pairs = zip(found, expected, strict=True)
    return torch.stack([(a.float() - b).norm() / b.norm() for a, b in pairs]).max().item()


def _results(
    attention: AttentionFunction,
    inputs: Sequence[Tensor],
    plan: WindowPlan,
    *,
    drop_first: bool = False,
) -> list[Tensor]:
    """Output, and gradients of queries, of keys, of values and of the bias.

    ``drop_first``: of all samples but the first, whose result has a gradient of NaN.
    """
    first = 1 if drop_first else 0
    leaves = [t.detach().requires_grad_() for t in inputs]
    out = attention(leaves[0], leaves[1] if len(leaves) > 1 else None, plan, _HEADS)
    rest = out[first:]
    grad = torch.full_like(out, torch.nan)
    grad[first:] = torch.linspace(-1, 1, rest.numel(), device=out.device).view_as(rest)
    grad_qkv, *grad_bias = torch.autograd.grad(out, leaves, grad)
    return [rest.detach(), *grad_qkv[first:].chunk(3, dim=-1), *grad_bias]
