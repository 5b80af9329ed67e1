"""Activation checkpointing, where asked for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def recomputed(asked: bool, function: Callable[..., Tensor], *arguments: object) -> Tensor:
    """Call ``function``; if asked, keep its arguments only and call it again for the gradient."""
    if asked and torch.is_grad_enabled():
        result: Tensor = checkpoint(function, *arguments, use_reentrant=False)
        return result
    return function(*arguments)
