"""What operations cost a GPU: kernels, bytes moved, arithmetic.

PyTorch's operations are taken as one kernel that reads its inputs and writes its results once;
matrix products and convolutions also have FLOPs, by PyTorch's own formulas. Operations of our own
either run PyTorch's operations, which are counted one by one, or kernels with costs given here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from vrtspike.models.token_ops import feed_forward, linear

Arithmetic = Literal["none", "half", "tf32", "float32"]


@dataclass(frozen=True)
class Kernel:
    """One launch.

    Attributes:
        moved: bytes read and written.
        flops: of matrix products.
        arithmetic: the type in which these are made.
        instructions: of all warps, where these and not bytes or products decide.
    """

    moved: float
    flops: float = 0.0
    arithmetic: Arithmetic = "none"
    instructions: float = 0.0


def size_of(tensor: Tensor) -> int:
    """Bytes that reading a tensor moves; what is expanded is read once."""
    elements = math.prod(n for n, s in zip(tensor.shape, tensor.stride(), strict=True) if s)
    return elements * tensor.element_size()


def kernels_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[Kernel]:  # noqa: ANN401 - an operation of any kind
    """The kernels that one call of an operation launches."""
    name = func.name().split(".")[0]
    if name in OWN:
        return OWN[name](args, out)
    results = list(_tensors(out))
    written = sum(size_of(t) for t in results)
    if name in _FILLS:
        return [Kernel(written)]
    if name in _GATHERS:
        index = sum(size_of(t) for t in _tensors(args[1:]))
        return [Kernel(2 * written + index)]
    if name == "aten::copy_":
        return [Kernel(size_of(args[0]) + size_of(args[1]))]
    if name == "aten::convolution":
        return _convolution(func, args, out)
    if name == "aten::convolution_backward":
        return _convolution_backward(func, args, out)
    read = sum(size_of(t) for t in _tensors([*args, *kwargs.values()]))
    if func.overloadpacket in flop_registry:
        flops = flop_registry[func.overloadpacket](*args, **kwargs, out_val=out)
        kind = _arithmetic(next(_tensors(args)), is_convolution=False)
        return [Kernel(read + written, flops, kind)]
    extra = [Kernel(0.0)] * (_LAUNCHES.get(name, 1) - 1)
    return [Kernel(read + written), *extra]


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _arithmetic(operand: Tensor, *, is_convolution: bool) -> Arithmetic:
    """PyTorch makes convolutions of float32 in TF32 unless told otherwise, but no products."""
    if operand.dtype in (torch.bfloat16, torch.float16):
        return "half"
    return "tf32" if is_convolution else "float32"


def _transforms(x: Tensor, out: Tensor) -> list[Kernel]:
    """Copies that cuDNN makes around a convolution whose operands are not as its kernels want them.

    Those for tensor cores read channels last, in groups of eight (half types) or four.
    """
    group = 8 if x.element_size() == 2 else 4
    found = []
    for tensor in (x, out):
        last = tensor.is_contiguous(memory_format=torch.channels_last) or tensor.shape[1] == 1
        if not last or tensor.shape[1] % group:
            found.append(Kernel(2 * size_of(tensor)))
    return found


def _convolution(func: Any, args: Sequence[Any], out: Tensor) -> list[Kernel]:  # noqa: ANN401
    x, weight = args[0], args[1]
    flops = flop_registry[func.overloadpacket](*args, out_val=out)
    moved = size_of(x) + size_of(weight) + size_of(out)
    kind = _arithmetic(x, is_convolution=True)
    # The bias is added by a kernel of its own.
    bias = [] if args[2] is None else [Kernel(2 * size_of(out))]
    return [Kernel(moved, flops, kind), *_transforms(x, out), *bias]


def _convolution_backward(func: Any, args: Sequence[Any], out: Any) -> list[Kernel]:  # noqa: ANN401
    grad, x, weight = args[:3]
    for_x, for_weight, for_bias = args[-1]
    flops = flop_registry[func.overloadpacket](*args, out_val=out) / max(for_x + for_weight, 1)
    kind = _arithmetic(x, is_convolution=True)
    moved = size_of(x) + size_of(weight) + size_of(grad)
    found = [Kernel(moved, flops, kind)] * (for_x + for_weight)
    if for_bias:
        found.append(Kernel(size_of(grad)))
    return [*found, *(_transforms(x, grad) if found else [])]


FREE = frozenset(
    {
        "aten::empty.memory_format",
        "aten::empty_strided",
        "aten::empty_like",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::detach",
        "aten::alias",
        "aten::lift_fresh",
        "aten::_unsafe_view",
        "aten::_reshape_alias",
        "aten::sym_size.int",
        "aten::is_same_size",
    }
)
"""Operations that launch nothing, beside those that are views."""
_FILLS = frozenset(
    [f"aten::{name}" for name in ("zeros", "ones", "full", "arange", "rand", "scalar_tensor")]
    + [f"aten::{name}_like" for name in ("zeros", "ones", "full")]
    + [f"aten::new_{name}" for name in ("zeros", "ones", "full")]
    + [f"aten::{name}_" for name in ("fill", "zero", "bernoulli")]
)
_GATHERS = frozenset({"aten::index_select", "aten::gather", "aten::index"})
# Kernels of operations that launch more than one.
_LAUNCHES = {"aten::native_layer_norm_backward": 3}

OPENED: dict[str, Callable[[], Callable[..., Any]]] = {
    "vrtspike::normalised_linear": lambda: linear._forward._init_fn,
    "vrtspike::normalised_linear_backward": lambda: linear._backward._init_fn,
    "vrtspike::normalised_geglu": lambda: feed_forward._forward._init_fn,
    "vrtspike::normalised_geglu_backward": lambda: feed_forward._backward._init_fn,
}
"""Operations of our own that run PyTorch's operations on a GPU."""

# Instructions of a warp in the inner loops of window attention, for each tile of 64 x 64 scores,
# which four warps work on; compiled for sm_90.
_WARPS = 4
_TILE = 64 * 64
_FORWARD, _QUERY, _KEY, _BIAS = 491, 456, 541, 435


def _tiles(qkv: Tensor, query: Tensor, heads: int) -> float:
    tokens = query.shape[1]
    blocks = -(-tokens // 64)
    tile = _TILE if tokens > 32 else tokens * tokens
    return qkv.shape[0] * query.shape[0] * heads * blocks * blocks * tile / _TILE


def _attention_forward(args: Sequence[Any], out: Any) -> list[Kernel]:  # noqa: ANN401
    qkv, query, heads = args[0], args[2], args[-1]
    moved = size_of(qkv) + sum(size_of(t) for t in out)
    return [Kernel(moved, instructions=_WARPS * _FORWARD * _tiles(qkv, query, heads))]


def _attention_backward(args: Sequence[Any], out: Any) -> list[Kernel]:  # noqa: ANN401
    grad, qkv, bias, query, heads = args[0], args[1], args[2], args[3], args[-1]
    moved = 2 * size_of(qkv) + 2 * size_of(grad)
    tiles = _WARPS * _tiles(qkv, query, heads)
    found = [Kernel(moved, instructions=n * tiles) for n in (_QUERY, _KEY)]
    return found if bias is None else [*found, Kernel(moved, instructions=_BIAS * tiles)]


def _deform(args: Sequence[Any], out: Tensor) -> list[Kernel]:
    """By torchvision, in float32: casts, offsets, column buffer, product."""
    x, raw, weight = args[0], args[1], args[3]
    pixels = x.shape[0] * x.shape[2] * x.shape[3]
    exact = 4 / raw.element_size() * size_of(raw)
    columns = 4.0 * 9 * x.shape[1] * pixels
    flops = 2.0 * 9 * weight.shape[0] * weight.shape[1] * pixels
    return [
        *[Kernel(2 * exact)] * 4,
        Kernel(size_of(x) + exact),
        Kernel(exact + columns + 2 * exact),
        Kernel(columns + 2 * size_of(out), flops, "float32"),
        Kernel(2 * size_of(out)),
    ]


def _deform_backward(args: Sequence[Any], out: Any) -> list[Kernel]:  # noqa: ANN401
    forward = _deform(args[1:], args[0])
    columns = forward[6]
    # Gradient of the columns, of what was sampled (by atomic additions), columns again, weights.
    return [*forward[:6], *[columns] * 2, *[Kernel(2 * columns.moved)] * 2, *forward[:4]]


OWN: dict[str, Callable[[Sequence[Any], Any], list[Kernel]]] = {
    "vrtspike::triton_attention": _attention_forward,
    "vrtspike::triton_attention_backward": _attention_backward,
    "vrtspike::guided_deform_conv": _deform,
    "vrtspike::guided_deform_conv_backward": _deform_backward,
}
