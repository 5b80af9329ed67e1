"""What is computed again in the backward pass: by policy, and where checkpoints are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Literal, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from vrtspike.deblurring.models.kernel_trust import is_counted

Result = TypeVar("Result")
Recompute = Literal["auto", "none", "cheap"]
"""A policy for what costs little beside the memory that it frees."""

# Bytes of a GPU from which on a training clip of 5 x 256 x 256 fits with everything kept, also
# where kernels of our own are not trusted and plain layers keep twice as much.
_LARGE = 70 * 2**30


@torch.compiler.assume_constant_result
def keeps_all(policy: Recompute, device: torch.device) -> bool:
    """Whether a policy keeps on a device what the cheap one computes again.

    Args:
        policy: ``auto`` keeps it on GPUs of at least 70 GiB. On a CPU the cheap policy is faster,
            too: what is made again is then in the cache.
        device: where the features are. One without data, with which a step is counted, is large.
    """
    if policy != "auto":
        return policy == "none"
    return device.type == "cuda" and (is_counted() or _memory(device) >= _LARGE)


@lru_cache(maxsize=8)
def _memory(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory


def recomputed(asked: bool, function: Callable[..., Result], *arguments: object) -> Result:
    """Call ``function``; if asked, keep its arguments only and call it again for the gradient.

    What it draws it draws again alike, except in a pass that is recorded as a CUDA graph: a
    generator cannot be read there. Such passes draw nothing in what is computed again (see
    :mod:`vrtspike.host_draws`), and are compared with one that is run.
    """
    if asked and torch.is_grad_enabled():
        result: Result = checkpoint(
            function,
            *arguments,
            use_reentrant=False,
            preserve_rng_state=not _is_recorded(arguments),
        )
        return result
    return function(*arguments)


def _is_recorded(arguments: Iterable[object]) -> bool:
    # Without a device nothing is recorded; a compiler handles generators itself.
    on_cuda = any(isinstance(argument, Tensor) and argument.is_cuda for argument in arguments)
    if torch.compiler.is_compiling() or not (on_cuda and torch.cuda.is_initialized()):
        return False
    return torch.cuda.is_current_stream_capturing()
