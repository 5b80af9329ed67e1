"""What launches of Triton kernels cost, from what they are given and from their machine code.

A kernel reads and writes the tensors it is given once; what several programs read again comes from
the cache. How many instructions it issues follows from its code for sm_90 and from how often its
loops run, which :data:`WORK` knows for each kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from kernel_code import compile_kernel
from machine_loops import Count
from operation_costs import Arithmetic, Kernel, size_of

CAPABILITY = 90
_TYPES = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.int64: "*i64",
    torch.int32: "*i32",
}


@dataclass(frozen=True)
class Work:
    """What a launch does.

    Attributes:
        trips: how often each loop of a program runs in all, in the order of the code.
        flops: of all its matrix products, padding not counted.
        share: of the bytes of its tensors that it touches.
        added: bytes of atomic additions beside that, which the cache makes one by one.
        left: names of the tensors that are read or written where the sample's branch is dropped:
            of results zeros are written; None if all is done.
    """

    trips: tuple[float, ...] = ()
    flops: float = 0.0
    share: float = 1.0
    added: float = 0.0
    left: Sequence[str] | None = ()


@dataclass(frozen=True)
class Code:
    """What decides the machine code of a launch."""

    kernel: Any
    types: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]
    options: tuple[tuple[str, int], ...]

    @cache  # noqa: B019 - lives as long as the process, like the compiler's own cache
    def counts(self) -> tuple[Count, Count]:
        """Instructions, and those of the unit for exponentials."""
        found = compile_kernel(
            self.kernel, dict(self.types), dict(self.constants), CAPABILITY, **dict(self.options)
        )
        special = Count(found.special, found.special_loops)
        return Count(found.instructions, found.loops), special


def launched(kernel: Any, grid: Sequence[int], arguments: Mapping[str, Any]) -> Kernel:  # noqa: ANN401
    """The cost of a launch.

    Args:
        kernel: a function under ``triton.jit``.
        grid: programs in each direction.
        arguments: all of the launch by name, tensors, numbers, constants and options.
    """
    name = f"{kernel.__module__.split('.')[-1]}.{kernel.__name__}"
    if name not in WORK:
        raise ValueError(f"benchmarks/triton_costs.py knows no kernel {name}; add it to WORK")
    programs = math.prod(grid)
    work = WORK[name]({**arguments, "programs": programs, "grid": grid})
    tensors = {id(a): a for a in arguments.values() if isinstance(a, Tensor)}.values()
    moved = work.added + work.share * sum(size_of(t) for t in tensors)
    code = _code(kernel, arguments)
    warps = dict(code.options).get("num_warps", 4)

    def instructions() -> tuple[float, float]:
        every, special = (
            programs * warps * (count.all - sum(count.loops) + _looped(count.loops, work.trips))
            for count in code.counts()
        )
        return every, special

    half = any(t.dtype in (torch.bfloat16, torch.float16) for t in tensors)
    kind: Arithmetic = "half" if half else "float32"
    left = None
    if arguments.get("KEEP") and work.left is not None:
        left = work.share * sum(size_of(arguments[name]) for name in work.left)
    return Kernel(moved, work.flops, kind, instructions, left)


def _code(kernel: Any, arguments: Mapping[str, Any]) -> Code:  # noqa: ANN401
    """The code that runs for a sample whose branch is not dropped.

    Code for both has the instructions of both, and its loops that write zeros.
    """
    if "KEEP" in arguments:
        arguments = {**arguments, "KEEP": False}
    types, constants, options = {}, {}, {}
    constant = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    for name, value in arguments.items():
        if name not in kernel.arg_names:
            options[name] = value
        elif name in constant:
            constants[name] = value
        elif isinstance(value, Tensor):
            types[name] = _TYPES[value.dtype]
        else:
            types[name] = "fp32" if isinstance(value, float) else "i32"
    return Code(
        kernel,
        tuple(types.items()),
        tuple(sorted(constants.items())),
        tuple(sorted(options.items())),
    )


def _looped(loops: Sequence[int], trips: Sequence[float]) -> float:
    """Instructions of loops; where the compiler joined or unrolled some, by their mean."""
    if len(loops) == len(trips):
        return sum(a * b for a, b in zip(loops, trips, strict=True))
    if not loops:
        return 0.0
    return sum(loops) / len(loops) * sum(trips)


def _blocks(length: float, block: int) -> int:
    return math.ceil(length / block)


def _attention(
    products: int, trips: Callable[[Mapping[str, Any]], tuple[float, ...]], *results: str
) -> Callable[[Mapping[str, Any]], Work]:
    """Work of a kernel of window attention that makes so many products of N x N x D.

    ``results`` are zeros of samples that are dropped.
    """

    def work(a: Mapping[str, Any]) -> Work:
        samples = a["qkv"].shape[0]
        count = a["last"] - a["first"] if "last" in a else a["grid"][1]
        flops = 2.0 * products * samples * count * a["HEADS"] * a["N"] ** 2 * a["D"]
        return Work(trips(a), flops, count / a["windows"], left=("place", *results))

    return work


def _over_queries(a: Mapping[str, Any]) -> tuple[float, ...]:
    queries = _blocks(a["N"], a["BLOCK_M"])
    # A loop of one turn is none.
    return (queries,) * (queries > 1)


def _over_groups(a: Mapping[str, Any]) -> tuple[float, ...]:
    queries, keys = _blocks(a["N"], a["BLOCK_M"]), _blocks(a["N"], a["BLOCK_N"])
    if queries <= a["GROUP"]:
        return (keys,) * (keys > 1)
    groups, rest = divmod(queries, a["GROUP"])
    # A loop over one group is none.
    around = (groups,) if groups > 1 else ()
    return (keys,) * bool(rest) + (*around, groups * keys)


def _hidden(products: int, without: int) -> Callable[[Mapping[str, Any]], Work]:
    """Work of a feed-forward kernel that makes so many products of rows x C x H."""

    def work(a: Mapping[str, Any]) -> Work:
        rows = a["x"].shape[0] * a["length"]
        # Fewer by those of the value where there is none.
        flops = 2.0 * (products if a["GATED"] else products - without) * rows * a["C"] * a["H"]
        # The tokens are passed through, or their gradient; sums over all samples read zeros.
        sums = ("partial", "normed", "scaled", "grad_hidden", "products")
        left = ("grad", "grad_x", *sums) if "grad" in a else ("x", "out")
        return Work((_blocks(a["H"], a["BLOCK_H"]),), flops, left=left)

    return work


def _outputs(a: Mapping[str, Any]) -> Work:
    """Of the projections before attention, forward and backward."""
    trips = (_blocks(a["OUT"], a["BLOCK_O"]),) * (1 + a["MUTUAL"])
    flops = 2.0 * a["x"].shape[0] * a["length"] * a["C"] * a["OUT"] * len(trips)
    # Without the projections the gradient of the tokens is what reaches them by other ways; what
    # the gradients of weights are sums over is written all the same.
    backward = ("x", "through", "grad_x", "normed", "coded", "partial")
    return Work(trips, flops, left=backward if "through" in a else ("out_own", "out_mutual"))


def _output(a: Mapping[str, Any]) -> Work:
    """Of the projection after attention, forward and backward."""
    rows = a["own"].shape[0] if "own" in a else a["grad_own"].shape[0]
    flops = 2.0 * rows * a["length"] * a["C"] ** 2 * (1 + a["MUTUAL"])
    # The backward kernel does not look: it writes zeros, from products with zeros.
    return Work((), flops, left=("x", "out") if "own" in a else None)


def _columns(a: Mapping[str, Any]) -> int:
    """Sampled values: nine of each channel and pixel; as many channels enter as leave."""
    return 9 * _pixels(a) * int(a["FAN_OUT"])


def _pixels(a: Mapping[str, Any]) -> int:
    """Aligned pixels: the flow has two numbers for each."""
    return int(a["flow"].numel()) // 2


def _deform(a: Mapping[str, Any]) -> Work:
    """Of a kernel that goes over the nine taps of a tile."""
    return Work((9,), 2.0 * _columns(a) * a["FAN_OUT"])


_CORNERS = 4


def _deform_backward(a: Mapping[str, Any]) -> Work:
    """Gradients of the columns, of what was sampled (added corner by corner) and of offsets.

    Of some pairs, whose columns are written.
    """
    work = _deform(a)
    share = a["programs"] * a["TILE_H"] * a["TILE_W"] / _pixels(a)
    added = _CORNERS * 4.0 * _columns(a) * share
    added += (1 - share) * size_of(a["columns"])  # all of these
    return Work(work.trips, work.flops * share, share, added)


WORK: dict[str, Callable[[Mapping[str, Any]], Work]] = {
    "kernel_parts.packing_kernel": lambda _: Work(),
    "forward_kernel.forward_kernel": _attention(2, _over_queries, "out"),
    "gradient_kernels.gradient_kernel": _attention(5, _over_groups, "grads"),
    "gradient_kernels.bias_kernel": _attention(2, lambda a: (a["share"],), "sums"),
    "feed_forward_kernels.forward_kernel": _hidden(3, 1),
    "feed_forward_kernels.rows_kernel": _hidden(5, 2),
    "feed_forward_kernels.fold_kernel": lambda _: Work(),
    "projection_kernels.packing_kernel": lambda _: Work(),
    "projection_kernels.input_kernel": _outputs,
    "projection_kernels.input_rows_kernel": _outputs,
    "projection_kernels.output_kernel": _output,
    "projection_kernels.output_rows_kernel": _output,
    "kernels.forward_kernel": _deform,
    "kernels.backward_kernel": _deform_backward,
}
"""What each kernel does, by its module and name."""
