"""May a kernel of our own be used on this machine?

Kernels are compiled for the device they meet, by compilers of many versions, so none is taken on
trust: before the first step its results and gradients are compared with its definition, and where
it fails or differs, the definition runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)

Trial = Callable[[torch.device, torch.dtype], float]
"""Runs a kernel and its definition in a type; the largest difference as a share of the norm."""

# Of the norm; rounding of the inputs alone makes 0.004 in bfloat16.
_TOLERANCES = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 3e-2}


@lru_cache(maxsize=1)
def has_triton() -> bool:
    """Whether the package triton is installed."""
    return find_spec("triton") is not None


def triton_runs(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether Triton's kernels can run on a device and in a type at all."""
    return device.type == "cuda" and dtype in _TOLERANCES and has_triton()


def is_counted() -> bool:
    """Whether tensors have no data here, because a step is counted and not run.

    A compiler's tracing is none of that: the compiled step will run.
    """
    return any(isinstance(mode, FakeTensorMode) for mode in _get_current_dispatch_mode_stack())


def is_trusted(name: str, trial: Trial, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a kernel runs on a device and agrees with its definition there.

    Args:
        name: of the kernel, for the warning.
        trial: runs both. It must neither use up random numbers of the run nor join its graph.
        device: where to run it.
        dtype: type of the features.

    Returns:
        False with a warning that says why, when it fails or differs. Tensors without data, with
        which a step is counted, try nothing: there every kernel is taken.
    """
    if is_counted():
        return True
    if device == torch.device("cuda") and torch.cuda.is_available():
        # The same device by another name would be tried by itself.
        device = torch.device("cuda", torch.cuda.current_device())
    return _agrees(name, trial, device, dtype)


def _same(tensor: Tensor) -> Tensor:
    return tensor


@lru_cache(maxsize=64)
def _agrees(name: str, trial: Trial, device: torch.device, dtype: torch.dtype) -> bool:
    try:
        # The first call may stand in a layer that is checkpointed, which would take the tensors
        # that the trial saves for its own, or whose operations are being counted.
        with _disable_current_modes(), saved_tensors_hooks(_same, _same):
            difference = trial(device, dtype)
    except Exception as error:  # compilers and drivers fail with exceptions of their own
        warnings.warn(f"{name} is not used: it fails on {device} ({error})", stacklevel=3)
        return False
    if not difference <= _TOLERANCES[dtype]:
        warnings.warn(
            f"{name} is not used: on {device} in {dtype} it differs from the definition by "
            f"{difference:.1e} of the norm",
            stacklevel=3,
        )
        return False
    return True
