"""Memory of a training step, counted, not measured.

Under PyTorch's ``FakeTensorMode`` nothing is computed. Memory of libraries and of PyTorch's
allocator in addition to the tensors is not counted.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class StorageCounter(TorchDispatchMode):
    """Counter of the storages that operations create while the mode is active.

    Attributes:
        now: bytes of the living storages.
        peak: largest value of ``now``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counted: set[int] = set()
        self.now = 0
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as PyTorch calls it
        """Run an operation and count its results."""
        results = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(results):
            if isinstance(tensor, Tensor):
                self.note(tensor)
        return results

    def note(self, tensor: Tensor, *, counts: bool = True) -> None:
        """Count the storage of a tensor, unless it has been counted.

        Args:
            tensor: result of an operation, or a tensor that existed before.
            counts: if false, the tensor and all its views are left out.
        """
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._counted:
            return
        size = storage.nbytes() if counts else 0
        self._counted.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._counted.remove(key)
        self.now -= size


def working_bytes(model: nn.Module, batch: Sequence[Tensor], loss: Callable[[], Tensor]) -> int:
    """Count the peak of the memory that forward and backward pass of a micro-step need.

    Weights, gradients and the optimiser's state are left out: counted are the batch, activations,
    their gradients and temporary results, in bytes.

    Args:
        model: the model, which gets gradients of zero, as in every micro-step of a step but the
            first.
        batch: inputs of ``loss``.
        loss: function that runs the forward pass; the result is back-propagated.
    """
    memory = StorageCounter()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
        memory.note(parameter.grad, counts=False)
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        memory.note(tensor, counts=False)
    for tensor in batch:
        memory.note(tensor)
    with memory:
        loss().backward()
    return memory.peak
