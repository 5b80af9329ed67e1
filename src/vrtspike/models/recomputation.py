"""Activation checkpointing, where asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def recomputed(asked: bool, function: Callable[..., Tensor], *arguments: object) -> Tensor:
    """Call ``function``; if asked, keep its arguments only and call it again for the gradient.

    What it draws it draws again alike, except in a pass that is recorded as a CUDA graph: a
    generator cannot be read there. Such passes draw nothing in what is computed again (see
    :mod:`vrtspike.models.host_draws`), and are compared with one that is run.
    """
    if asked and torch.is_grad_enabled():
        result: Tensor = checkpoint(
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
