"""Memory and arithmetic that a training step needs, counted instead of measured.

Under PyTorch's ``FakeTensorMode``, whose tensors have sizes and types and no values, nothing is
computed, so that a laptop can count a step that only a large GPU could run. Memory of libraries and
of PyTorch's allocator beside the tensors is not counted.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count


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


@dataclass(frozen=True)
class StepCost:
    """Memory that forward and backward pass of one micro-step need.

    Attributes:
        peak_bytes: peak in bytes, without weights, gradients and the optimizer's state: the batch,
            activations, their gradients, temporary results.
        forward_flop: floating-point operations of matrix products and convolutions.
        flop: the same with the backward pass and its recomputation.
        parameters: number of the model's parameters.
    """

    peak_bytes: int
    forward_flop: int
    flop: int
    parameters: int


def _convolution_backward(
    grad: Sequence[int],
    x: Sequence[int],
    weight: Sequence[int],
    *options: Any,  # noqa: ANN401 - as PyTorch calls it
    **_: object,
) -> int:
    """Return the FLOPs of a convolution's backward pass: for each gradient those of forward.

    PyTorch's own formula ignores groups.
    """
    *_others, transposed, _padding, _groups, output_mask = options
    forward = conv_flop_count(list(x), list(weight), list(grad), transposed=transposed)
    gradients = int(output_mask[0]) + int(output_mask[1])
    return forward * gradients


FORMULAS = {torch.ops.aten.convolution_backward: _convolution_backward}


def count_step(model: nn.Module, batch: Sequence[Tensor], loss: Callable[[], Tensor]) -> StepCost:
    """Count a micro-step; arguments as for :func:`working_bytes`."""
    peak_bytes = working_bytes(model, batch, loss)
    # Operations are counted in a second pass, because the hooks of this mode keep tensors that a
    # step would have freed.
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        value = loss()
        forward = counter.get_total_flops()
        value.backward()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return StepCost(peak_bytes, int(forward), int(counter.get_total_flops()), parameters)


def working_bytes(model: nn.Module, batch: Sequence[Tensor], loss: Callable[[], Tensor]) -> int:
    """Count the memory of a micro-step (:attr:`StepCost.peak_bytes`).

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
