"""Launches of our own Triton kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

SMALLEST_DOT = 16
"""Rows and columns of the smallest matrix product of a program."""

Options = dict[str, Any]
"""Compile-time constants and options of a launch (``num_warps``, ``num_stages``) by name."""

_PROCESSORS_CPU = 4  # for Triton's interpreter


class TracingMode(FakeTensorMode):
    """Tensors without data, under which kernels are noted instead of launched.

    Args:
        note: called with kernel, grid and all arguments of each launch by name.
    """

    def __init__(self, note: Callable[[Any, Sequence[int], dict[str, Any]], None]) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.note = note


def is_traced(x: Tensor) -> bool:
    """Whether a tensor is one of :class:`TracingMode`."""
    return isinstance(x, FakeTensor) and isinstance(x.fake_mode, TracingMode)


def launch(kernel: Any, grid: Sequence[int], *arguments: Any, **constants: Any) -> None:  # noqa: ANN401
    """Launch a kernel on the device of its first tensor.

    Args:
        kernel: a function under ``triton.jit``.
        grid: programs in each direction.
        arguments: tensors and numbers, in the order of the kernel's parameters.
        constants: its other parameters and the options of the launch.
    """
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    fakes = [t for t in tensors if isinstance(t, FakeTensor)]
    if fakes:
        mode = fakes[0].fake_mode
        if isinstance(mode, TracingMode):
            named = dict(zip(kernel.arg_names, arguments, strict=False))
            mode.note(kernel, grid, {**named, **constants})
        return
    make_cache_key(kernel)
    # Triton launches on the current device, wherever the tensors are.
    with torch.cuda.device_of(tensors[0]):
        kernel[tuple(grid)](*arguments, **constants)


def make_cache_key(kernel: Any) -> None:  # noqa: ANN401
    """Have Triton name a kernel for its cache, after all functions that the kernel calls.

    Triton 3.6 leaves out the globals of a called function that has no name yet: the name of a
    kernel, and whether it is found in the cache, would depend on what the process launched before.
    """
    if getattr(kernel, "hash", "") is None:
        for name in kernel.fn.__code__.co_names:
            make_cache_key(kernel.fn.__globals__.get(name))
        kernel.cache_key  # noqa: B018 - a property that is computed once


def tile(length: int, least: int = SMALLEST_DOT) -> int:
    """Length of the tile that holds ``length`` values: a power of two.

    >>> [tile(length) for length in (5, 96, 128)]
    [16, 128, 128]
    """
    return max(1 << (length - 1).bit_length(), least)


def capability_of(device: torch.device) -> tuple[int, int]:
    """Compute capability of a device; that of an H100 for Triton's interpreter on a CPU."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else (9, 0)


def has_products_from_shared_memory(capability: tuple[int, int]) -> bool:
    """Whether operands of products come from 227 KiB of shared memory (9.x, 10.x).

    From registers (8.x, 12.x) they leave less of these.
    """
    return capability[0] in (9, 10)


@lru_cache(maxsize=8)
def processors_of(device: torch.device) -> int:
    """Multiprocessors of a device."""
    if device.type != "cuda":
        return _PROCESSORS_CPU
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
