"""The guided deformable convolution by our own Triton kernels, for CUDA.

Everything is channels last, as the features around it are: nothing is transposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.deblurring.models.deform.definition import POINTS, only_wanted
from vrtspike.deblurring.models.kernel_launch import SMALLEST_DOT, on_device_of, precision, tile
from vrtspike.deblurring.models.mixed_precision import product_over_rows

# A group's channels are read as one vector of 16 bytes.
_CHANNELS = 8
# Zeros around a picture: both corners of a direction may be beyond.
_BORDER = 2
_LARGEST_DOT = 128
_SAMPLED_BYTES = 2**28
"""Sampled values that the backward pass holds at a time, unless a pair of frames has more."""


def kernel_takes(x: Tensor, groups: int, fan_out: int) -> bool:
    """Whether features (B, T, H, W, C) have a size that the kernels are made for."""
    height, width, channels = x.shape[2:]
    row = _lanes(groups) * _CHANNELS
    return (
        channels <= groups * _CHANNELS
        and max(row, fan_out) <= _LARGEST_DOT
        # Corners are found by 32 bits from the start of their frame.
        and height * width * row < 2**31
    )


def deform_by_kernel(
    x: Tensor,
    raw: Tensor,
    shift: Tensor,
    flow: Tensor,
    weight: Tensor,
    bias: Tensor,
    max_magnitude: float,
) -> Tensor:
    """:func:`guided_deform_conv` of all neighbours of frames; products in the type of ``x``.

    Args:
        x: (B, T, H, W, C), T at least 2, C / groups at most 8. Its pairs of frames, N = 2B(T - 1),
            are those of :func:`neighbours`.
        raw: (N, H, W, 9, 3, groups); for each sampling point what becomes its displacement down,
            its displacement right and its modulation, once ``shift`` is added.
        shift: (9, 3, groups), the bias of what gives ``raw``, which so need not pass over it.
        flow: (N, 2, H, W), x first.
        weight: (C', C, 3, 3).
        bias: (C',).
        max_magnitude: bound of the displacement beside the flow.

    Returns:
        (B, T, H, W, 2C') in the type of ``x``; see :func:`beside_frames`.
    """
    return _forward(x, raw, shift, flow, weight, bias, max_magnitude)


def _lanes(groups: int) -> int:
    """Groups with those that are padded."""
    return tile(groups, SMALLEST_DOT // _CHANNELS)


def _padded(x: Tensor, groups: int) -> Tensor:
    """(..., H, W, C) -> (..., 2 + H + 2, 2 + W + 2, G * 8): a vector for each group; else zeros."""
    apart = x.unflatten(-1, (groups, -1))
    behind = (0, _CHANNELS - apart.shape[-1], 0, _lanes(groups) - groups)
    return functional.pad(apart, (*behind, *4 * (_BORDER,))).flatten(-2).contiguous()


def _matrices(weight: Tensor, groups: int, dtype: torch.dtype) -> Tensor:
    """(C', C, 3, 3) -> (9, G * 8, OUT): the matrix of each sampling point, zeros where padded."""
    fan_out, fan_in = weight.shape[:2]
    rows = fan_in // groups
    shape = (POINTS, _lanes(groups), _CHANNELS, _width(fan_out))
    matrices = weight.new_zeros(shape, dtype=dtype)
    points = weight.reshape(fan_out, groups, rows, POINTS).permute(3, 1, 2, 0)
    matrices[:, :groups, :rows, :fan_out] = points
    return matrices.flatten(1, 2)


def _width(fan_out: int) -> int:
    """Columns of a matrix of the weights."""
    return tile(fan_out)


def constants(groups: int, fan_out: int, dtype: torch.dtype) -> dict[str, Any]:
    """Compile-time constants of all kernels.

    Args:
        groups: offset groups.
        fan_out: channels of the result.
        dtype: type of the features.
    """
    return {
        "GROUPS": groups,
        "FAN_OUT": fan_out,
        "G": _lanes(groups),
        "C": _CHANNELS,
        "OUT": _width(fan_out),
        # Only tests compute in float32, and want its digits.
        "PRECISION": precision(dtype),
    }


def launch_options(capability: tuple[int, int], *, forward: bool, adds: bool) -> dict[str, int]:
    """Pixels of a program, and its warps.

    Args:
        capability: of the GPU.
        forward: whether it is the kernel of the results.
        adds: whether the program adds to the gradient of the features. GPUs before sm_90 add one
            number at once, each at its own address, for which they lack the registers.
    """
    if adds and capability < (9, 0):
        return {"TILE_H": 4, "TILE_W": 8, "num_warps": 8, "num_stages": 1}
    # Two sampled groups are a thread's, four where sm_90's own matrix product makes the result: its
    # instructions are as many for twice the rows.
    wide = forward and capability[0] == 9
    return {"TILE_H": 8, "TILE_W": 16 if wide else 8, "num_warps": 16, "num_stages": 1}


class _Problem(NamedTuple):
    """The inputs as the kernels want them."""

    picture: Tensor
    raw: Tensor
    shift: Tensor
    flow: Tensor
    weight: Tensor
    max_magnitude: float
    dtype: torch.dtype

    @property
    def groups(self) -> int:
        """Offset groups."""
        return self.raw.shape[-1]

    def sizes(self) -> tuple[int, int, int, int, float]:
        """Height, width, pairs of one direction, those of a clip, bound of the displacement."""
        pairs, height, width = self.raw.shape[:3]
        return height, width, pairs // 2, self.picture.shape[1] - 1, self.max_magnitude

    def matrices(self) -> Tensor:
        """Weights of each sampling point in the type of the features."""
        return _matrices(self.weight, self.groups, self.dtype)

    def options(
        self, *, forward: bool = False, adds: bool = False
    ) -> tuple[tuple[int, int], dict[str, Any]]:
        """Tiles across and down; constants and options of a launch."""
        on_gpu = self.picture.is_cuda
        capability = torch.cuda.get_device_capability(self.picture.device) if on_gpu else (0, 0)
        options = launch_options(capability, forward=forward, adds=adds)
        height, width = self.raw.shape[1:3]
        tiles = -(-width // options["TILE_W"]), -(-height // options["TILE_H"])
        return tiles, {**constants(self.groups, self.weight.shape[0], self.dtype), **options}


def _problem(
    x: Tensor, raw: Tensor, shift: Tensor, flow: Tensor, weight: Tensor, max_magnitude: float
) -> _Problem:
    raw, shift, flow = (t.contiguous() for t in (raw, shift, flow))
    picture = _padded(x, raw.shape[-1])
    return _Problem(picture, raw, shift, flow, weight, max_magnitude, x.dtype)


@torch.library.custom_op("vrtspike::deform_by_kernel", mutates_args=())
def _forward(
    x: Tensor,
    raw: Tensor,
    shift: Tensor,
    flow: Tensor,
    weight: Tensor,
    bias: Tensor,
    max_magnitude: float,
) -> Tensor:
    from vrtspike.deblurring.models.deform.triton_kernels import forward_kernel

    problem = _problem(x, raw, shift, flow, weight, max_magnitude)
    fan_out = weight.shape[0]
    out = x.new_empty(*x.shape[:4], 2 * fan_out)
    out[:, -1, ..., :fan_out].zero_()
    out[:, 0, ..., fan_out:].zero_()
    tiles, options = problem.options(forward=True)
    with on_device_of(x):
        forward_kernel[(*tiles, raw.shape[0])](
            *problem[:4], problem.matrices(), bias.contiguous(), out, *problem.sizes(), **options
        )
    return out


@_forward.register_fake
def _(x: Tensor, raw: Tensor, shift: Tensor, flow: Tensor, weight: Tensor, *_: Any) -> Tensor:  # noqa: ANN401
    return x.new_empty(*x.shape[:4], 2 * weight.shape[0])


@torch.library.custom_op("vrtspike::deform_by_kernel_backward", mutates_args=())
def _backward(
    grad: Tensor,
    x: Tensor,
    raw: Tensor,
    shift: Tensor,
    flow: Tensor,
    weight: Tensor,
    max_magnitude: float,
    wanted: Sequence[bool],
) -> list[Tensor]:
    """Gradients of x, raw, shift, flow, weight and bias; of those not wanted, nothing."""
    for_x, for_raw, for_shift, for_flow, for_weight, for_bias = wanted
    problem = _problem(x, raw, shift, flow, weight, max_magnitude)
    grad = grad if _is_even(grad) else grad.contiguous()
    found = [t.new_empty(0) for t in (x, raw, shift, flow, weight, weight)]
    with on_device_of(x):
        if for_x or for_raw or for_shift or for_flow or for_weight:
            asked = _Wanted(for_x, for_raw or for_shift, for_flow, for_weight)
            sums, found[1], found[3], found[4] = _input_gradients(problem, grad, asked)
            if for_x:
                found[0] = _features_of(sums, x, problem.groups)
    if for_shift:
        found[2] = found[1].sum((0, 1, 2), dtype=torch.float32).to(shift.dtype)
    if for_bias:
        later, earlier = grad.chunk(2, dim=-1)
        found[5] = (_sum(later[:, :-1]) + _sum(earlier[:, 1:])).to(weight.dtype)
    return only_wanted(found, wanted)


def _is_even(grad: Tensor) -> bool:
    """Whether pixels lie at one distance, as part of the channels do, each without gaps."""
    even = [grad.stride(i) == grad.stride(i + 1) * grad.shape[i + 1] for i in range(3)]
    return grad.stride(-1) == 1 and all(even)


def _sum(grad: Tensor) -> Tensor:
    """Sum over all but the channels, in float32."""
    return grad.sum((0, 1, 2, 3), dtype=torch.float32)


class _Wanted(NamedTuple):
    """Which gradients the kernel makes."""

    x: bool
    raw: bool
    flow: bool
    weight: bool


def _input_gradients(
    problem: _Problem, grad: Tensor, wanted: _Wanted
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, as the kernel adds it up, of raw, flow and weight; empty if not wanted."""
    from vrtspike.deblurring.models.deform.triton_kernels import input_kernel

    picture, raw, _, flow, *_ = problem
    places = (*picture.shape[:2], *raw.shape[1:3]) if wanted.x else (0,)
    sums = picture.new_zeros(*places, picture.shape[-1], dtype=torch.float32)
    grad_raw = torch.empty_like(raw if wanted.raw or wanted.flow else raw[:0])
    grad_flow = torch.empty_like(flow if wanted.flow else flow[:0])
    matrices = problem.matrices()
    by_weight = picture.new_zeros(
        POINTS * problem.groups * _CHANNELS if wanted.weight else 0,
        problem.weight.shape[0],
        dtype=torch.float32,
    )
    tiles, options = problem.options(adds=wanted.x)
    for begin, pairs, rows in _pieces(problem, grad, wanted.weight):
        columns = picture.new_empty(rows.shape[0], by_weight.shape[0])
        input_kernel[(*tiles, pairs)](
            grad,
            *problem[:4],
            matrices,
            sums,
            grad_raw,
            grad_flow,
            columns,
            begin,
            *problem.sizes(),
            FOR_X=wanted.x,
            FOR_RAW=wanted.raw or wanted.flow,
            FOR_FLOW=wanted.flow,
            FOR_WEIGHT=wanted.weight,
            PITCH=grad.stride(-2),
            **options,
        )
        if wanted.weight:
            by_weight += product_over_rows(columns, rows, torch.float32)
        del columns  # before the next are made
    found = _weight_of(by_weight, problem) if wanted.weight else by_weight
    return sums, grad_raw, grad_flow, found


def _pieces(problem: _Problem, grad: Tensor, samples: bool) -> Iterator[tuple[int, int, Tensor]]:
    """First pair and number of pairs of each launch, and their gradient, (pixels, C').

    All pairs at once, unless their sampled values, nine times the padded features, have to be kept
    until the launch is done: then at most :data:`_SAMPLED_BYTES` of them, of one direction.
    """
    pairs, height, width = problem.raw.shape[:3]
    fan_out = problem.weight.shape[0]
    if not samples:
        yield 0, pairs, grad.new_empty(0, fan_out)
        return
    pair = POINTS * problem.groups * _CHANNELS * grad.element_size() * height * width
    most = max(_SAMPLED_BYTES // pair, 1)
    # Of all pairs: frames with their next one, then with their previous one, clip by clip.
    later, earlier = grad[:, :-1, ..., :fan_out], grad[:, 1:, ..., fan_out:]
    begin = 0
    for direction in (later, earlier):
        for part in direction.flatten(0, 1).split(most):
            yield begin, len(part), part.reshape(-1, fan_out)
            begin += len(part)


def _features_of(sums: Tensor, x: Tensor, groups: int) -> Tensor:
    """Sums of the kernel, (half of a group, group, channel) a pixel, as gradient of ``x``."""
    found = torch.empty_like(x, memory_format=torch.contiguous_format)
    halves = sums.unflatten(-1, (2, -1, _CHANNELS // 2))[..., :groups, :].unbind(-3)
    parts = found.unflatten(-1, (groups, -1)).split(_CHANNELS // 2, -1)
    for half, part in zip(halves, parts, strict=False):  # one may hold all channels
        part.copy_(half[..., : part.shape[-1]])
    return found


def _weight_of(sums: Tensor, problem: _Problem) -> Tensor:
    """Sums (9 * groups * 8, C') in the shape and type of the weights."""
    weight, groups = problem.weight, problem.groups
    apart = sums.unflatten(0, (POINTS, groups, _CHANNELS))[:, :, : weight.shape[1] // groups]
    return apart.permute(3, 1, 2, 0).reshape(weight.shape).to(weight.dtype).contiguous()


@_backward.register_fake
def _(
    grad: Tensor,
    x: Tensor,
    raw: Tensor,
    shift: Tensor,
    flow: Tensor,
    weight: Tensor,
    max_magnitude: float,
    wanted: Sequence[bool],
) -> list[Tensor]:
    own = [t.new_empty(t.shape) for t in (x, raw, shift, flow, weight)]
    return only_wanted([*own, weight.new_empty(weight.shape[0])], wanted)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    *tensors, _, ctx.max_magnitude = inputs
    ctx.save_for_backward(*tensors)


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    wanted = list(ctx.needs_input_grad[:6])
    found = _backward(grad, *ctx.saved_tensors, ctx.max_magnitude, wanted)
    return (*(t if asked else None for t, asked in zip(found, wanted, strict=True)), None)


_forward.register_autograd(_grads, setup_context=_save)
