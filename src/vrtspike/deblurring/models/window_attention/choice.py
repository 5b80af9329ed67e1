"""Which implementation of window attention runs, by name or by device and precision."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_trust import is_trusted, triton_runs
from vrtspike.deblurring.models.window_attention.agreement import (
    AttentionFunction,
    agrees,
    difference_of_kept,
)
from vrtspike.deblurring.models.window_attention.explicit import explicit_attention
from vrtspike.deblurring.models.window_attention.flex import flex_window_attention
from vrtspike.deblurring.models.window_attention.fused import fused_attention
from vrtspike.deblurring.models.window_attention.recompute import recompute_attention
from vrtspike.deblurring.models.window_attention.triton_attention import triton_attention
from vrtspike.deblurring.models.windows import WindowPlan
from vrtspike.errors import ConfigError

IMPLEMENTATIONS: Mapping[str, AttentionFunction] = MappingProxyType(
    {
        "explicit": explicit_attention,
        "fused": fused_attention,
        "recompute": recompute_attention,
        "flex": flex_window_attention,
        "triton": triton_attention,
    }
)
"""Implementations by the name a preset gives them."""


def check_implementation(name: str) -> None:
    """Refuse a name that is neither ``auto`` nor a key of :data:`IMPLEMENTATIONS`.

    Raises:
        ConfigError: no such implementation.
    """
    if name != "auto" and name not in IMPLEMENTATIONS:
        known = ", ".join(["auto", *IMPLEMENTATIONS])
        raise ConfigError(f"unknown attention implementation {name!r}; there are: {known}")


@torch.compiler.assume_constant_result
def choose_implementation(name: str, device: torch.device, dtype: torch.dtype) -> str:
    """The implementation that ``name`` stands for on a device.

    Args:
        name: a key of :data:`IMPLEMENTATIONS`, or ``auto`` for the best one: on CUDA the Triton
            kernels where they agree with the definition on this device, which is tried at the
            first call, else ``recompute``.
        device: where the features are.
        dtype: type of queries, keys and values.

    Raises:
        ConfigError: no such implementation, or it cannot run on this device.
    """
    check_implementation(name)
    if name == "auto":
        own_kernels = triton_runs(device, dtype) and agrees(triton_attention, device, dtype)
        return "triton" if own_kernels else "recompute"
    if name in ("flex", "triton") and not triton_runs(device, dtype):
        raise ConfigError(
            f"attention implementation {name!r} needs a CUDA device, the package triton and a "
            f"precision of at most 32 bits, found {device.type} and {dtype}; use auto"
        )
    return name


def _difference_of_kept(device: torch.device, dtype: torch.dtype) -> float:
    return difference_of_kept(triton_attention, device, dtype)


@torch.compiler.assume_constant_result
def leaves_out(name: str, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the implementation that runs can leave out samples, which is tried at first."""
    own_kernels = choose_implementation(name, device, dtype) == "triton"
    return own_kernels and is_trusted(
        "triton_attention of some samples", _difference_of_kept, device, dtype
    )


def window_attention(
    qkv: Tensor,
    bias: Tensor | None,
    plan: WindowPlan,
    heads: int,
    name: str = "auto",
    keep: Tensor | None = None,
) -> Tensor:
    """Window attention by the implementation ``name``; see :func:`explicit_attention`.

    ``keep`` says of which samples nobody reads the result, (B,) float32: of those where it is 0.
    An implementation that :func:`leaves_out` samples computes nothing of them.
    """
    chosen = choose_implementation(name, qkv.device, qkv.dtype)
    if chosen == "triton":
        return triton_attention(qkv, bias, plan, heads, keep)
    return IMPLEMENTATIONS[chosen](qkv, bias, plan, heads)
