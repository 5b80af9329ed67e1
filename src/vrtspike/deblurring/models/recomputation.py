"""Recomputation in the backward pass by ``torch.utils.checkpoint``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

Result = TypeVar("Result")


def recomputed(asked: bool, function: Callable[..., Result], *arguments: object) -> Result:
    """Call ``function``; if asked, keep its arguments only and call it again for the gradient."""
    if not (asked and torch.is_grad_enabled()):
        return function(*arguments)
    result: Result = checkpoint(function, *arguments, use_reentrant=False)
    return result


class Recomputed(nn.Module):
    """A module that keeps only its positional arguments for the backward pass if ``checkpoint``."""

    checkpoint = False

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - those of forward
        """Call the module."""
        return recomputed(self.checkpoint, super().__call__, *arguments)
