"""What operations cost a GPU: kernels, bytes moved, arithmetic.

PyTorch's operations are taken as one kernel that reads its inputs and writes its results once;
matrix products and convolutions also have FLOPs, by PyTorch's own formulas. Kernels of our own have
costs in ``triton_costs.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

Arithmetic = Literal["none", "half", "tf32", "float32"]


@dataclass(frozen=True)
class Kernel:
    """One launch.

    Attributes:
        moved: bytes read and written.
        flops: of matrix products.
        arithmetic: the type in which these are made.
        issued: gives the instructions of all warps, where these may decide, and how many of them
            are for the unit of exponentials; it may have to compile.
        left: bytes moved of a sample whose branch stochastic depth drops; None where the kernel
            does not look.
    """

    moved: float
    flops: float = 0.0
    arithmetic: Arithmetic = "none"
    issued: Callable[[], tuple[float, float]] | None = None
    left: float | None = None


def size_of(tensor: Tensor) -> int:
    """Bytes that reading a tensor moves; what is expanded is read once."""
    elements = math.prod(n for n, s in zip(tensor.shape, tensor.stride(), strict=True) if s)
    return elements * tensor.element_size()


def kernels_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> list[Kernel]:  # noqa: ANN401 - an operation of any kind
    """The kernels that one call of an operation launches."""
    name = func.name().split(".")[0]
    results = list(tensors_in(out))
    written = sum(size_of(t) for t in results)
    if name in _FILLS:
        return [Kernel(written)]
    if name in _GATHERS:
        index = sum(size_of(t) for t in tensors_in(args[1:]))
        return [Kernel(2 * written + index)]
    if name == "aten::copy_":
        return [Kernel(size_of(args[0]) + size_of(args[1]))]
    if name == "aten::convolution":
        return _convolution(func, args, out)
    if name == "aten::convolution_backward":
        return _convolution_backward(func, args, out)
    others = [value for name, value in kwargs.items() if name not in _WRITTEN]
    read = sum(size_of(t) for t in tensors_in([*args, *others]))
    if func.overloadpacket in flop_registry:
        flops = flop_registry[func.overloadpacket](*args, **kwargs, out_val=out)
        kind = _arithmetic(next(tensors_in(args)), is_convolution=False)
        return [Kernel(read + written, flops, kind)]
    extra = [Kernel(0.0)] * (_LAUNCHES.get(name, 1) - 1)
    return [Kernel(read + written), *extra]


def tensors_in(value: object) -> Iterator[Tensor]:
    """The tensors in an argument or a result."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


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
        "aten::squeeze_.dim",
    }
)
"""Operations that launch nothing, beside those that are views."""
_FILLS = frozenset(
    [f"aten::{name}" for name in ("zeros", "ones", "full", "arange", "rand", "scalar_tensor")]
    + [f"aten::{name}_like" for name in ("zeros", "ones", "full")]
    + [f"aten::new_{name}" for name in ("zeros", "ones", "full")]
    + [f"aten::{name}_" for name in ("fill", "zero", "bernoulli")]
)
# Arguments that take a result.
_WRITTEN = frozenset({"out", "grad_input"})
_GATHERS = frozenset({"aten::index_select", "aten::gather", "aten::index"})
# Kernels of operations that launch more than one.
_LAUNCHES = {"aten::native_layer_norm_backward": 3}
