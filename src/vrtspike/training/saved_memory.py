"""Memory of a training step, counted: what is kept for the backward pass, and the weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

COPIES = 4
"""Of the weights in float32: themselves, their gradients, and two moments of the optimiser."""


def weight_bytes(model: nn.Module) -> int:
    """Weights, gradients and moments."""
    return COPIES * sum(p.numel() * p.element_size() for p in model.parameters())


def saved_bytes(model: nn.Module, loss: Callable[[], torch.Tensor]) -> int:
    """Bytes that a forward pass keeps for the backward pass, each storage once.

    Args:
        model: whose parameters are kept anyway.
        loss: computes the forward pass.
    """
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    found: dict[int, int] = {}
    kept = []  # a storage that is freed could come back under the same address

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage.nbytes()
            kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss()
    return sum(found.values())
