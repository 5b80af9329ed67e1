"""Which implementation of an operation runs: our own kernel or the reference.

An :class:`Operation` has a reference implementation in PyTorch, which runs everywhere, and a kernel
for CUDA in half precision. Kernels are compiled for the device they meet by compilers of many
versions, so none is taken on trust: before its first use its results and gradients are compared
with the reference. Where it does not compile or differs, the reference runs, with a warning.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)
from torch.utils.flop_counter import FlopCounterMode

from vrtspike.deblurring.models.ops.launch import is_traced
from vrtspike.errors import ConfigError, RunError

VARIABLE = "VRTSPIKE_DISABLE_KERNELS"
"""Environment variable with operations whose kernels are off, separated by commas, or ``all``."""

Recompute = Literal["auto", "none", "cheap"]
"""What is recomputed in the backward pass whatever the checkpointing switches say."""

TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 3e-2}
"""Largest difference of a kernel from the reference as a share of the norm, by type of the
products; rounding of the inputs alone makes 0.004 in bfloat16."""

# Bytes of a GPU from which on a training clip of 5 x 256 x 256 fits with everything kept.
_LARGE = 70 * 2**30


@dataclass(frozen=True)
class Operation:
    """An operation with a kernel of our own.

    Attributes:
        name: as it is called in settings and logs.
        trial: runs kernel and reference on a device, with products of a type; the largest
            difference of results and gradients as a share of the norm.
    """

    name: str
    trial: Callable[[torch.device, torch.dtype], float]


@dataclass(frozen=True)
class Compute:
    """How a model's operations are computed; results differ by rounding alone.

    Attributes:
        attention: implementation of window attention: ``auto``, or a name of
            ``ops.window_attention.IMPLEMENTATIONS``.
        recompute: ``cheap`` keeps no normalised tokens and no hidden values of feed-forward layers
            for the backward pass, ``none`` keeps both, ``auto`` keeps them on GPUs of at least
            70 GiB and leaves it to ``torch.compile`` in what that compiles. Kernels of our own
            keep neither.
        disabled: names of operations whose kernels are off, or ``all``.
        untried: kernels are used wherever they can run, without a trial: for the trials.
    """

    attention: str = "auto"
    recompute: Recompute = "auto"
    disabled: frozenset[str] = field(default=frozenset())
    untried: bool = False

    def keeps_all(self, device: torch.device) -> bool:
        """Whether the backward pass finds everything kept on a device."""
        if self.recompute != "auto":
            return self.recompute == "none"
        if torch.compiler.is_compiling():  # the compiler chooses what is made again
            return True
        # On a CPU recomputing is cheap, too: what is made again is then in the cache.
        if device.type != "cuda":
            return False
        if not torch.cuda.is_available():  # tensors without data: a step is counted
            return True
        return torch.cuda.get_device_properties(device).total_memory >= _LARGE


KERNELS = Compute(untried=True)
REFERENCE = Compute("explicit", "none", frozenset({"all"}))
"""What a trial compares."""


_VERDICTS: dict[tuple[str, torch.device, torch.dtype], str] = {}
"""What trials found in this process, empty where a kernel is used; it cannot change."""


def uses_kernel(operation: Operation, x: Tensor, dtype: torch.dtype, compute: Compute) -> bool:
    """Whether an operation runs by its kernel.

    Args:
        operation: which one.
        x: an input, on the device in question.
        dtype: type of its products.
        compute: the settings of the model.
    """
    if compute.untried:
        return dtype in TOLERANCES
    if obstacle(operation.name, x.device, dtype, compute) or _counts_flops():
        return False
    if isinstance(x, FakeTensor):  # a step is traced, not run; a trial would have no data
        return is_traced(x) and not _VERDICTS.get((operation.name, _indexed(x.device), dtype))
    return not refusal(operation, x.device, dtype)


def _counts_flops() -> bool:
    """Whether PyTorch's counter of FLOPs is on, which does not see into kernels."""
    # What is on the stack is a mode of the counter's own, which names the counter.
    modes = _get_current_dispatch_mode_stack()
    return any(isinstance(getattr(mode, "counter", None), FlopCounterMode) for mode in modes)


def obstacle(name: str, device: torch.device, dtype: torch.dtype, compute: Compute) -> str:
    """Why a kernel cannot run, whatever a trial would say; empty where it can."""
    if device.type != "cuda":
        return "kernels are for CUDA devices"
    if compute.disabled & {name, "all"}:
        return "off by MODEL.DISABLE_KERNELS"
    if disabled_by_environment() & {name, "all"}:
        return f"off by {VARIABLE}"
    if dtype not in TOLERANCES:
        return f"kernels are for half precision, products are {str(dtype).removeprefix('torch.')}"
    return "" if find_spec("triton") else "the package triton is missing"


def disabled_by_environment() -> frozenset[str]:
    """Operations that the environment variable names."""
    return frozenset(filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))))


def check_names(names: Iterable[str], known: Iterable[str], source: str) -> None:
    """Refuse names of operations that there are not.

    Raises:
        ConfigError: names the first one and ``source``, and lists those that there are.
    """
    choices = ("all", *known)
    for name in names:
        if name not in choices:
            raise ConfigError(
                f"{source}: found {name!r}; expected operations with a kernel: {', '.join(choices)}"
            )


def refusal(operation: Operation, device: torch.device, dtype: torch.dtype) -> str:
    """Why a kernel is not used on a device, by its trial, once for each process; empty if it is.

    Raises:
        RunError: the trial cannot say: memory ran out, or the GPU's context was lost.
    """
    device = _indexed(device)
    key = (operation.name, device, dtype)
    if key not in _VERDICTS:
        _VERDICTS[key] = _tried(operation, device, dtype)
        if _VERDICTS[key]:
            warnings.warn(
                f"the kernel of {operation.name} is not used on {device}, the reference runs: "
                f"{_VERDICTS[key]}",
                stacklevel=3,
            )
    return _VERDICTS[key]


def settle(
    operations: Iterable[Operation],
    device: torch.device,
    dtype: torch.dtype,
    gather: Callable[[Mapping[str, str]], list[Mapping[str, str]]],
) -> None:
    """Try kernels on all ranks; one that any of them refuses is used by none.

    Args:
        operations: to be tried.
        device: of this rank.
        dtype: type of the products.
        gather: every rank's value, in the order of ranks.
    """
    found = {operation.name: refusal(operation, device, dtype) for operation in operations}
    refused = {name: reason for name, reason in found.items() if reason}
    for rank, others in enumerate(gather(refused)):
        for name, reason in others.items():
            if name not in refused:
                _VERDICTS[name, _indexed(device), dtype] = f"rank {rank}: {reason}"


def _indexed(device: torch.device) -> torch.device:
    if device == torch.device("cuda") and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _tried(operation: Operation, device: torch.device, dtype: torch.dtype) -> str:
    try:
        # The first call may stand in a layer that is checkpointed, which would take the tensors
        # that the trial saves for its own, or whose operations are being counted.
        with _disable_current_modes(), saved_tensors_hooks(_same, _same):
            difference = operation.trial(device, dtype)
    except torch.OutOfMemoryError as error:
        raise RunError(
            f"{device}: memory ran out while the kernel of {operation.name} was tried ({error}); "
            "expected 1 GiB to be free. End what else uses the GPU and start again"
        ) from error
    except Exception as error:  # compilers and drivers fail with exceptions of their own
        _require_context(operation.name, device, error)
        return f"{type(error).__name__}: {error}"
    if not difference <= TOLERANCES[dtype]:
        return f"differs from the reference by {difference:.1e} of the norm"
    return ""


def _require_context(name: str, device: torch.device, error: Exception) -> None:
    """End the run where a kernel has destroyed the GPU's context, which fails later and elsewhere.

    Raises:
        RunError: after an illegal access, say.
    """
    if device.type != "cuda" or not torch.cuda.is_available():
        return
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as lost:
        raise RunError(
            f"{device}: the kernel of {name} ended with an error after which the GPU computes "
            f"nothing more in this process ({error}). Start again with {VARIABLE}={name}, and "
            "report it"
        ) from lost


def _same(tensor: Tensor) -> Tensor:
    return tensor
