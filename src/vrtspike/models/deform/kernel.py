"""The guided deformable convolution by our own Triton kernels, for CUDA.

Everything is channels last, as the features around it are: nothing is transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.models.deform.definition import POINTS, only_wanted

# A group's channels are read as one vector of 16 bytes.
_CHANNELS = 8
_SMALLEST_DOT = 16
_LARGEST_DOT = 128
# Programs that make the gradient of the weights; a few for each multiprocessor of a large GPU.
_WEIGHT_PROGRAMS = 1024
# Each of them writes a sum as large as the weights, so that it should be one of several tiles.
_TILES_OF_A_SUM = 4


def kernel_takes(x: Tensor, groups: int, fan_out: int) -> bool:
    """Whether features (N, H, W, C) have a size that the kernels are made for."""
    _, height, width, channels = x.shape
    row = _lanes(groups) * _CHANNELS
    return (
        channels <= groups * _CHANNELS
        and max(row, fan_out) <= _LARGEST_DOT
        # Corners are found by 32 bits from the start of their frame.
        and height * width * row < 2**31
    )


def deform_by_kernel(
    x: Tensor, raw: Tensor, flow: Tensor, weight: Tensor, bias: Tensor, max_magnitude: float
) -> Tensor:
    """:func:`guided_deform_conv` with channels last; products in the type of ``x``.

    Args:
        x: (N, H, W, C), C / groups at most 8.
        raw: (N, H, W, 9, 3, groups); for each sampling point what becomes its displacement down,
            its displacement right and its modulation.
        flow: (N, 2, H, W), x first.
        weight: (C', C, 3, 3).
        bias: (C',).
        max_magnitude: bound of the displacement beside the flow.

    Returns:
        (N, H, W, C') in the type of ``x``.
    """
    return _forward(x, raw, flow, weight, bias, max_magnitude)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _lanes(groups: int) -> int:
    """Groups with those that are padded."""
    return max(_power_of_two(groups), _SMALLEST_DOT // _CHANNELS)


def _padded(x: Tensor, groups: int) -> Tensor:
    """(N, H, W, C) -> (N, H, W, G * 8): each group in a vector of its own, zeros behind it."""
    apart = x.unflatten(-1, (groups, -1))
    more = (0, _CHANNELS - apart.shape[-1], 0, _lanes(groups) - groups)
    return functional.pad(apart, more).flatten(-2).contiguous()


def _matrices(weight: Tensor, groups: int, dtype: torch.dtype) -> Tensor:
    """(C', C, 3, 3) -> (9, G * 8, OUT): the matrix of each sampling point, zeros where padded."""
    fan_out, fan_in = weight.shape[:2]
    rows = fan_in // groups
    shape = (POINTS, _lanes(groups), _CHANNELS, _width(fan_out))
    matrices = weight.new_zeros(shape, dtype=dtype)
    points = weight.reshape(fan_out, groups, rows, POINTS).permute(3, 1, 2, 0)
    matrices[:, :groups, :rows, :fan_out] = points
    return matrices.flatten(1, 2)


def _weight_of(matrices: Tensor, weight: Tensor, groups: int) -> Tensor:
    """The inverse of :func:`_matrices`, in the shape and type of ``weight``."""
    fan_out, fan_in = weight.shape[:2]
    apart = matrices.unflatten(1, (-1, _CHANNELS))[:, :groups, : fan_in // groups, :fan_out]
    return apart.permute(3, 1, 2, 0).reshape(weight.shape).to(weight.dtype)


def _width(fan_out: int) -> int:
    """Columns of a matrix of the weights."""
    return max(_power_of_two(fan_out), _SMALLEST_DOT)


def _constants(x: Tensor, raw: Tensor, fan_out: int) -> dict[str, Any]:
    """Compile-time constants of all kernels."""
    groups = raw.shape[-1]
    return {
        "GROUPS": groups,
        "FAN_OUT": fan_out,
        "G": _lanes(groups),
        "C": _CHANNELS,
        "OUT": _width(fan_out),
        # Only tests compute in float32, and want its digits.
        "PRECISION": "ieee" if x.dtype == torch.float32 else "tf32",
        "num_stages": 1,
    }


def _tile(x: Tensor, adds: bool = False) -> dict[str, int]:
    """Pixels of a program, and warps such that two sampled groups are a thread's.

    Args:
        x: features.
        adds: whether the program adds to the gradient of ``x``. GPUs before sm_90 add one number
            at once, each at its own address, for which two tiles' registers are not there.
    """
    at_once = x.is_cuda and torch.cuda.get_device_capability(x.device) >= (9, 0)
    if adds and not at_once:
        return {"TILE_H": 4, "TILE_W": 8, "num_warps": 8}
    return {"TILE_H": 8, "TILE_W": 8, "num_warps": 16}


def _tiles(x: Tensor, tile: dict[str, int]) -> int:
    """Number of tiles of features (N, H, W, C)."""
    return x.shape[0] * -(-x.shape[1] // tile["TILE_H"]) * -(-x.shape[2] // tile["TILE_W"])


def _on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Triton launches on the current device, wherever the tensors are."""
    return torch.cuda.device_of(tensor)


@torch.library.custom_op("vrtspike::deform_by_kernel", mutates_args=())
def _forward(
    x: Tensor, raw: Tensor, flow: Tensor, weight: Tensor, bias: Tensor, max_magnitude: float
) -> Tensor:
    from vrtspike.models.deform.triton_kernels import forward_kernel

    groups, fan_out = raw.shape[-1], weight.shape[0]
    out = x.new_empty(*x.shape[:3], fan_out)
    tile = _tile(x)
    with _on_device_of(x):
        forward_kernel[(_tiles(x, tile),)](
            _padded(x, groups),
            raw.contiguous(),
            flow.contiguous(),
            _matrices(weight, groups, x.dtype),
            bias.contiguous(),
            out,
            *x.shape[1:3],
            max_magnitude,
            **_constants(x, raw, fan_out),
            **tile,
        )
    return out


@_forward.register_fake
def _(x: Tensor, raw: Tensor, flow: Tensor, weight: Tensor, *_: Any) -> Tensor:  # noqa: ANN401
    return x.new_empty(*x.shape[:3], weight.shape[0])


@torch.library.custom_op("vrtspike::deform_by_kernel_backward", mutates_args=())
def _backward(
    grad: Tensor,
    x: Tensor,
    raw: Tensor,
    flow: Tensor,
    weight: Tensor,
    max_magnitude: float,
    wanted: Sequence[bool],
) -> list[Tensor]:
    """Gradients of x, raw, flow, weight and bias; of those not wanted, nothing."""
    groups = raw.shape[-1]
    grad, raw, flow = grad.contiguous(), raw.contiguous(), flow.contiguous()
    inputs = (grad, _padded(x, groups), raw, flow)
    empty = x.new_empty(0)
    gradients = [empty] * 5
    with _on_device_of(x):
        if any(wanted[:3]):
            gradients[:3] = _input_gradients(*inputs, x, weight, max_magnitude, wanted)
        if wanted[3]:
            gradients[3] = _weight_gradient(*inputs, x, weight, max_magnitude)
    if wanted[4]:
        gradients[4] = grad.sum((0, 1, 2), dtype=torch.float32).to(weight.dtype)
    return gradients


def _input_gradients(
    grad: Tensor,
    picture: Tensor,
    raw: Tensor,
    flow: Tensor,
    x: Tensor,
    weight: Tensor,
    max_magnitude: float,
    wanted: Sequence[bool],
) -> list[Tensor]:
    """Gradients of x, raw and flow."""
    from vrtspike.models.deform.triton_kernels import input_kernel

    groups = raw.shape[-1]
    for_x, for_raw, for_flow = wanted[:3]
    empty = x.new_empty(0, dtype=torch.float32)
    sums = torch.zeros_like(picture, dtype=torch.float32) if for_x else empty
    grad_raw = torch.empty_like(raw) if for_raw or for_flow else raw
    grad_flow = torch.empty_like(flow) if for_flow else flow
    tile = _tile(x, for_x)
    input_kernel[(_tiles(x, tile),)](
        grad,
        picture,
        raw,
        flow,
        _matrices(weight, groups, x.dtype),
        sums,
        grad_raw,
        grad_flow,
        *x.shape[1:3],
        max_magnitude,
        FOR_X=for_x,
        FOR_RAW=for_raw or for_flow,
        FOR_FLOW=for_flow,
        **_constants(x, raw, weight.shape[0]),
        **tile,
    )
    if for_x:
        # (half of a group, group, channel) as the kernel adds -> (group, channel).
        apart = sums.unflatten(-1, (2, -1, _CHANNELS // 2)).transpose(-3, -2).flatten(-2)
        sums = apart[..., :groups, : x.shape[-1] // groups].to(x.dtype).flatten(-2)
    return only_wanted([sums, grad_raw, grad_flow], wanted[:3])


def _weight_gradient(
    grad: Tensor,
    picture: Tensor,
    raw: Tensor,
    flow: Tensor,
    x: Tensor,
    weight: Tensor,
    max_magnitude: float,
) -> Tensor:
    """Gradient of the weights: sums over shares of the pixels, and their sum."""
    from vrtspike.models.deform.triton_kernels import weight_kernel

    tile = _tile(x)
    tiles = _tiles(x, tile)
    share = max(-(-tiles * POINTS // _WEIGHT_PROGRAMS), _TILES_OF_A_SUM)
    shares = -(-tiles // share)
    width = _width(weight.shape[0])
    sums = x.new_empty(shares, POINTS, picture.shape[-1], width, dtype=torch.float32)
    weight_kernel[(POINTS, shares)](
        grad,
        picture,
        raw,
        flow,
        sums,
        *x.shape[1:3],
        max_magnitude,
        tiles,
        share,
        **_constants(x, raw, weight.shape[0]),
        **tile,
    )
    return _weight_of(sums.sum(0), weight, raw.shape[-1])


@_backward.register_fake
def _(
    grad: Tensor,
    x: Tensor,
    raw: Tensor,
    flow: Tensor,
    weight: Tensor,
    max_magnitude: float,
    wanted: Sequence[bool],
) -> list[Tensor]:
    own = [torch.empty_like(t) for t in (x, raw, flow, weight)]
    return only_wanted([*own, weight.new_empty(weight.shape[0])], wanted)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    *tensors, _, ctx.max_magnitude = inputs
    ctx.save_for_backward(*tensors)


def _grads(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    wanted = list(ctx.needs_input_grad[:5])
    found = _backward(grad, *ctx.saved_tensors, ctx.max_magnitude, wanted)
    return (*(t if asked else None for t, asked in zip(found, wanted, strict=True)), None)


_forward.register_autograd(_grads, setup_context=_save)
