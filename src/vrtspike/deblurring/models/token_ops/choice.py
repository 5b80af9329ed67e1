"""Whether token layers run as our own kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_trust import is_trusted, triton_runs
from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.token_ops import gate_agreement
from vrtspike.deblurring.models.token_ops.agreement import largest_difference
from vrtspike.deblurring.models.token_ops.launch import fits

_MOST_VALUES = 2**30


def has_kernels(x: Tensor) -> bool:
    """Whether the layers of tokens ``x`` (..., C) run as Triton kernels: on CUDA, where they agree.

    They are tried at the first call for a device and a precision.
    """
    dtype = autocast_dtype(x)
    stream = x.dtype in (torch.float32, dtype)
    # Values of a sample are found by 32 bits, also in its padded map, with less than twice as many.
    reachable = x.numel() < _MOST_VALUES * x.shape[0]
    return stream and reachable and fits(x.shape[-1]) and _is_trusted(x.device, dtype)


@torch.compiler.assume_constant_result
def has_gate(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the gate of GEGLU, of values of ``dtype``, runs as Triton kernels."""
    return triton_runs(device, dtype) and is_trusted(
        "own kernels of GEGLU's gate", gate_agreement.largest_difference, device, dtype
    )


@torch.compiler.assume_constant_result
def _is_trusted(device: torch.device, dtype: torch.dtype) -> bool:
    return triton_runs(device, dtype) and is_trusted(
        "own kernels of token layers", largest_difference, device, dtype
    )
