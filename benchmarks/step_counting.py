"""Arithmetic, operations and memory traffic of a training step, counted, not measured.

Its memory is counted by :mod:`vrtspike.monitoring.step_memory`. Under PyTorch's ``FakeTensorMode``,
whose tensors have sizes and types and no values, nothing is computed, so that a laptop can count a
step that only a large GPU could run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from vrtspike.monitoring.step_memory import working_bytes


@dataclass(frozen=True)
class Traffic:
    """Operations of forward and backward pass, and the memory traffic between them.

    Attributes:
        operations: number of operations that launch a kernel.
        moved: bytes of the inputs and outputs of these operations. What an operation moves within
            itself is not counted.
    """

    operations: int
    moved: int


_NO_KERNEL = {
    torch.ops.aten.detach,
    torch.ops.aten.empty,
    torch.ops.aten.empty_like,
    torch.ops.aten.empty_strided,
    torch.ops.aten.lift_fresh,
    torch.ops.aten.new_empty,
    torch.ops.aten.new_empty_strided,
    torch.ops.aten.promote_types,
    torch.ops.aten._unsafe_view,
}
"""Operations that only allocate memory, describe it again or choose a type, besides views and
questions about a tensor (namespace ``prim``)."""


class TrafficCounter(TorchDispatchMode):
    """Counter of the operations that run while the mode is active, and of the bytes they move.

    Attributes:
        operations: as :attr:`Traffic.operations`.
        moved: as :attr:`Traffic.moved`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as PyTorch calls it
        """Run an operation and count it."""
        results = func(*args, **(kwargs or {}))
        if func.is_view or func.namespace == "prim" or func.overloadpacket in _NO_KERNEL:
            return results
        self.operations += 1
        for tensor in tree_leaves((args, kwargs, results)):
            if isinstance(tensor, Tensor):
                self.moved += _distinct_bytes(tensor)
        return results


def _distinct_bytes(tensor: Tensor) -> int:
    """Return the bytes of the elements of a tensor, those of an expanded axis once."""
    axes = zip(tensor.shape, tensor.stride(), strict=True)
    elements = math.prod(length for length, stride in axes if stride or not length)
    return elements * tensor.element_size()


@contextmanager
def fused_attention() -> Iterator[None]:
    """Replace ``scaled_dot_product_attention`` by CUDA's memory-efficient kernel.

    Only for tensors without data: on a CPU PyTorch has no fused kernel with the gradient of a bias,
    and would count products, softmax and mask one by one. A ``TorchFunctionMode`` would not do: it
    is suspended during the backward pass, so that recomputation would not see it.
    """
    original = functional.scaled_dot_product_attention
    # The replacement has only the options that the models use.
    functional.scaled_dot_product_attention = cast("Any", _efficient_attention)
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = original


def _efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Call the memory-efficient kernel, with the types that autocast gives to attention."""
    tensors = [query, key, value]
    if attn_mask is not None:
        tensors.append(attn_mask)
    if torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)
        tensors = [tensor.to(dtype) for tensor in tensors]
    bias = None
    if attn_mask is not None:
        bias = tensors.pop().expand(*query.shape[:-1], key.shape[-2])
    keeps_sums = torch.is_grad_enabled()
    result = torch.ops.aten._scaled_dot_product_efficient_attention(
        *tensors, bias, keeps_sums, scale=scale
    )
    attended: Tensor = result[0]
    return attended


@dataclass(frozen=True)
class StepCost:
    """Memory that forward and backward pass of one micro-step need.

    Attributes:
        peak_bytes: peak in bytes, without weights, gradients and the optimiser's state: the batch,
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


def count_traffic(
    model: nn.Module, loss: Callable[[], Tensor], *, accumulates: bool = True
) -> Traffic:
    """Count operations and memory traffic of a micro-step.

    Args:
        model: network of the preset, with tensors without data.
        loss: as for :func:`working_bytes`.
        accumulates: the micro-step adds its gradients to those of a former one.
    """
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter) if accumulates else None
    with TrafficCounter() as counter:
        loss().backward()
    return Traffic(counter.operations, counter.moved)
