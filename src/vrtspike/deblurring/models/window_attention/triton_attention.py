"""Window attention by our own Triton kernels, for CUDA."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_launch import on_device_of
from vrtspike.deblurring.models.window_attention.launch_shapes import (
    Constants,
    Problem,
    bias_shape,
    forward_shape,
    gradient_shape,
    holds_keys,
    is_joint,
    joint_shape,
    layout_shape,
)
from vrtspike.deblurring.models.windows import WindowPlan, aligned_tokens

# Of a multiprocessor, from which on more of them would not keep it busier.
_PROGRAMS = 4
# Warps that sum the gradient of the bias on each multiprocessor, some times what runs at once. Each
# program writes what it has summed: fewer do so in ``joint_kernel``, of which fewer run at once.
_BIAS_WARPS = 48
_JOINT_WARPS = 24


# Of the second and the third axis of a grid.
_MOST_PROGRAMS = 2**16 - 1


def triton_attention(
    qkv: Tensor, bias: Tensor | None, plan: WindowPlan, heads: int, keep: Tensor | None = None
) -> Tensor:
    """Window attention whose scores never leave the chip; see :func:`explicit_attention`.

    Args:
        qkv: as there.
        bias: as there; None if ``plan`` is mutual: kernels look for queries and keys of scores that
            have a bias at the same places.
        plan: as there.
        heads: as there.
        keep: (B,) float32; nothing is computed of samples where it is 0, whose results and whose
            gradients of ``qkv`` hold anything. None: all are computed.

    Raises:
        ValueError: mutual attention with a bias.
    """
    if bias is not None and plan.geometry.mutual:
        raise ValueError("attention between two frames has no bias here: give None")
    out, _, _ = _forward(
        qkv,
        bias,
        # Already so on CUDA.
        plan.query.to(torch.int32),
        plan.key.to(torch.int32),
        plan.out.to(torch.int32),
        plan.regions,
        keep,
        plan.unmasked,
        heads,
    )
    return out


def _ranges(
    unmasked: int, windows: int, most: int = _MOST_PROGRAMS
) -> Iterator[tuple[int, int, bool]]:
    """First and last window of each launch, ``most`` at most, and whether it looks at regions."""
    for first, last, masked in ((0, unmasked, False), (unmasked, windows, True)):
        for start in range(first, last, most):
            yield start, min(start + most, last), masked


def _lay_out(bias: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """(heads, N, N) of any strides, as the kernels read it, and behind it the identity.

    That is (heads + 1, M, M), M a row of whole blocks. Half precision is read twice as fast as
    float32; the sum with the scores is made in float32.
    """
    from vrtspike.deblurring.models.window_attention.triton_kernels import layout_kernel

    heads, tokens, _ = bias.shape
    shape = layout_shape(tokens)
    stride = shape["STRIDE"]
    laid = bias.new_empty(heads + 1, stride, stride, dtype=dtype)
    grid = ((heads + 1) * (stride // shape["BLOCK"]) ** 2,)
    layout_kernel[grid](bias, laid, *bias.stride(), heads, width**0.5, **shape)
    return laid


@torch.library.custom_op("vrtspike::triton_attention", mutates_args=())
def _forward(
    qkv: Tensor,
    bias: Tensor | None,
    query: Tensor,
    key: Tensor,
    place: Tensor,
    regions: Tensor,
    keep: Tensor | None,
    unmasked: int,
    heads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Result, logarithms (base 2) of the sums of exponentials, and the bias as kernels read it."""
    from vrtspike.deblurring.models.window_attention.triton_forward import (
        forward_kernel,
        whole_kernel,
    )

    batch, length, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    windows, tokens = query.shape
    width = channels // heads
    qkv = qkv.contiguous()
    problem = _problem(qkv, query, heads, biased=bias is not None)
    out = qkv.new_empty(batch, length, channels)
    lse = qkv.new_empty(batch * windows, heads, tokens, dtype=torch.float32)
    whole = holds_keys(problem)
    kernel = whole_kernel if whole else forward_kernel
    with on_device_of(qkv):
        laid = qkv.new_empty(0) if bias is None else _lay_out(bias, width, qkv.dtype)
        for first, last, masked in _ranges(unmasked, windows):
            shape = forward_shape(problem, masked=masked)
            blocks = 1 if whole else -(-tokens // shape["BLOCK_M"])
            programs = blocks if shape.get("ALL_HEADS") else heads * blocks
            kernel[(programs, last - first, batch)](
                qkv, laid, query, key, place, regions, _factors(keep, lse), out, lse,
                first, windows, length, width**-0.5, KEEP=keep is not None, **shape,
            )  # fmt: skip
    return out, lse, laid


def _factors(keep: Tensor | None, other: Tensor) -> Tensor:
    """``keep``, or another tensor of float32 where a kernel does not look at it."""
    return other if keep is None else keep


@_forward.register_fake
def _(
    qkv: Tensor,
    bias: Tensor | None,
    query: Tensor,
    *rest: Any,  # noqa: ANN401
) -> tuple[Tensor, Tensor, Tensor]:
    batch, length, width = qkv.shape
    windows, tokens = query.shape
    heads = rest[-1]
    lse = qkv.new_empty(batch * windows, heads, tokens, dtype=torch.float32)
    stride = aligned_tokens(tokens)
    laid = qkv.new_empty(0 if bias is None else (heads + 1, stride, stride))
    return qkv.new_empty(batch, length, width // 3), lse, laid


@torch.library.custom_op("vrtspike::triton_attention_backward", mutates_args=())
def _backward(
    grad: Tensor,
    qkv: Tensor,
    laid: Tensor,
    query: Tensor,
    key: Tensor,
    place: Tensor,
    regions: Tensor,
    keep: Tensor | None,
    out: Tensor,
    lse: Tensor,
    unmasked: int,
    heads_last: bool,
    heads: int,
) -> tuple[Tensor, Tensor]:
    """Gradients of ``qkv`` and of the bias, the latter (heads, N, N) float32 or empty."""
    from vrtspike.deblurring.models.window_attention.triton_gradients import gradient_kernel

    batch, length, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    windows, tokens = query.shape
    width = channels // heads
    biased = laid.numel() > 0
    qkv, grad = qkv.contiguous(), grad.contiguous()
    grads = torch.empty_like(qkv)
    problem = _problem(qkv, query, heads, biased=biased)
    factors = _factors(keep, lse)
    with on_device_of(qkv):
        if is_joint(problem):
            joint = (qkv, laid, place, regions, factors, out, lse, grad)
            sums = _joint(joint, grads, problem, unmasked, skips=keep is not None)
            return grads, _summed(sums, tokens, heads_last)
        delta = torch.empty_like(lse) if biased else lse
        for first, last, masked in _ranges(unmasked, windows):
            shape = gradient_shape(problem, masked=masked)
            programs = 1 if shape["ALL_HEADS"] else heads
            gradient_kernel[(programs, last - first, batch)](
                qkv, laid, query, key, place, regions, factors, out, lse, grad, delta, grads,
                first, windows, length, width**-0.5, KEEP=keep is not None, **shape,
            )  # fmt: skip
        if not biased:
            return grads, lse.new_empty(0)
        used = (qkv, laid, place, regions, factors, lse, grad, delta)
        sums = _bias_sums(used, problem, unmasked, skips=keep is not None)
        return grads, _summed(sums, tokens, heads_last)


class _Launch(NamedTuple):
    """A launch whose programs sum over some windows each.

    Attributes:
        tiles: programs for each share of the windows.
        parts: shares of all samples.
        numbers: first and last window, those of a share, shares of a sample, the first's slot.
        shape: constants and options.
    """

    tiles: int
    parts: int
    numbers: tuple[int, int, int, int, int]
    shape: Constants


def _summing(
    unmasked: int, windows: int, batch: int, warps: int,
    shape_of: Callable[[bool], tuple[int, Constants]],
) -> Iterator[_Launch]:  # fmt: skip
    """Launches over all windows of samples, in shares that keep a GPU busy.

    Args:
        unmasked: how many windows hold one region.
        windows: of a sample.
        batch: samples.
        warps: that work on it, on all multiprocessors.
        shape_of: programs for a share, constants and options, with masks and without.
    """
    slots = 0
    for first, last, masked in _ranges(unmasked, windows, windows):
        tiles, shape = shape_of(masked)
        programs = warps // shape["num_warps"]
        share = -(-(last - first) // max(programs // (tiles * batch), 1))
        shares = -(-(last - first) // share)
        yield _Launch(tiles, batch * shares, (first, last, share, shares, slots), shape)
        slots += batch * shares


def _joint(
    tensors: tuple[Tensor, ...], grads: Tensor, problem: Problem, unmasked: int, *, skips: bool
) -> Tensor:
    """Fills ``grads``; gradient of the bias as :func:`_bias_sums` gives it."""
    from vrtspike.deblurring.models.window_attention.triton_joint import joint_kernel

    qkv, laid, place, *_ = tensors

    def shape_of(masked: bool) -> tuple[int, Constants]:
        return problem.heads, joint_shape(problem, masked=masked)

    warps = _JOINT_WARPS * _processors(qkv)
    launches = list(_summing(unmasked, len(place), len(qkv), warps, shape_of))
    sums = _empty_sums(laid, launches)
    for tiles, parts, numbers, shape in launches:
        joint_kernel[(tiles, parts)](
            *tensors, sums, grads, *numbers, len(place), qkv.shape[1], problem.width**-0.5,
            KEEP=skips, **shape,
        )  # fmt: skip
    return sums


def _bias_sums(
    tensors: tuple[Tensor, ...], problem: Problem, unmasked: int, *, skips: bool
) -> Tensor:
    """Gradient of the bias, summed over some windows in each of its (shares, heads, M, M)."""
    from vrtspike.deblurring.models.window_attention.triton_gradients import bias_kernel

    qkv, laid, place, *_ = tensors

    def shape_of(masked: bool) -> tuple[int, Constants]:
        shape = bias_shape(problem, masked=masked)
        blocks = (-(-problem.tokens // shape[name]) for name in ("BLOCK_M", "BLOCK_N"))
        return problem.heads * math.prod(blocks), shape

    warps = _BIAS_WARPS * _processors(qkv)
    launches = list(_summing(unmasked, len(place), len(qkv), warps, shape_of))
    sums = _empty_sums(laid, launches)
    for tiles, parts, numbers, shape in launches:
        bias_kernel[(tiles, parts)](
            *tensors, sums, *numbers, len(place), qkv.shape[1], problem.width**-0.5, KEEP=skips,
            **shape,
        )  # fmt: skip
    return sums


def _empty_sums(laid: Tensor, launches: Sequence[_Launch]) -> Tensor:
    """(shares of all launches, heads, M, M) float32."""
    slots = sum(launch.parts for launch in launches)
    return laid.new_empty(slots, len(laid) - 1, *laid.shape[1:], dtype=torch.float32)


def _summed(sums: Tensor, tokens: int, heads_last: bool) -> Tensor:
    """Gradient of the bias, (heads, N, N)."""
    result = _empty_bias(sums, sums.shape[1], tokens, heads_last)
    torch.sum(sums[:, :, :tokens, :tokens], 0, out=result)
    return result


def _problem(qkv: Tensor, query: Tensor, heads: int, *, biased: bool) -> Problem:
    """What decides the shapes of launches."""
    windows, tokens = query.shape
    width = qkv.shape[2] // 3 // heads
    many = len(qkv) * windows >= _PROGRAMS * _processors(qkv)
    return Problem(tokens, width, heads, qkv.dtype, biased, _capability(qkv), many)


def _capability(tensor: Tensor) -> tuple[int, int]:
    """Compute capability of a tensor's device; the interpreter's is that of an H100."""
    return torch.cuda.get_device_capability(tensor.device) if tensor.is_cuda else (9, 0)


def _processors(tensor: Tensor) -> int:
    """Multiprocessors of a tensor's device."""
    if not tensor.is_cuda:
        return 1
    return int(torch.cuda.get_device_properties(tensor.device).multi_processor_count)


def _empty_bias(like: Tensor, heads: int, tokens: int, heads_last: bool) -> Tensor:
    """(heads, N, N) in the order in memory of the bias, whose gradient then needs no copy."""
    if heads_last:
        return like.new_empty(tokens, tokens, heads).permute(2, 0, 1)
    return like.new_empty(heads, tokens, tokens)


@_backward.register_fake
def _(
    _: Tensor,
    qkv: Tensor,
    laid: Tensor,
    query: Tensor,
    *rest: Any,  # noqa: ANN401
) -> tuple[Tensor, Tensor]:
    lse, heads_last, heads = rest[5], rest[-2], rest[-1]
    if laid.numel() == 0:
        return torch.empty_like(qkv), lse.new_empty(0)
    return torch.empty_like(qkv), _empty_bias(lse, heads, query.shape[1], heads_last)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401
    qkv, bias, *plan, ctx.unmasked, ctx.heads = inputs
    out, lse, laid = output
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.heads_last = bias is not None and bias.stride(0) == 1
    ctx.set_materialize_grads(False)  # of the two results that nothing learns from
    ctx.save_for_backward(qkv, laid, *plan, out, lse)


def _grads(ctx: Any, grad: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    grads, grad_bias = _backward(grad, *ctx.saved_tensors, ctx.unmasked, ctx.heads_last, ctx.heads)
    bias_out = None if ctx.bias_dtype is None else grad_bias.to(ctx.bias_dtype)
    return grads, bias_out, *[None] * 7


_forward.register_autograd(_grads, setup_context=_save)
