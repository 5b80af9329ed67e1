"""FLOPs of the project's own operations, which PyTorch's counter cannot see into.

Formulas get the shapes of an operation's tensors in the order of its arguments. What a backward
pass makes again is not counted as work done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import vrtspike.deblurring.models  # noqa: F401 - registers the operations

Shape = Sequence[int]


def step_flops(model: nn.Module, inputs: tuple[Tensor, ...]) -> float:
    """FLOPs of forward and backward pass of a model; the sum of its result is differentiated."""
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        model(*inputs).sum().backward()
    return float(counter.get_total_flops())


def _deform(x: Shape, _: object, __: object, weight: Shape, *___: object, **____: object) -> int:
    """The matrix product of a deformable convolution; its sampling is not counted."""
    return 2 * x[0] * weight[0] * weight[1] * 9 * x[2] * x[3]


def _deform_backward(_: object, *inputs: Any, **__: object) -> int:  # noqa: ANN401
    return 2 * _deform(*inputs)


def _deform_kernel(x: Shape, *rest: Any, **__: object) -> int:  # noqa: ANN401
    """The same with channels last and the bias of the offsets: x, raw, bias, flow, weight."""
    weight = rest[3]
    return 2 * x[0] * weight[0] * weight[1] * 9 * x[1] * x[2]


def _deform_kernel_backward(_: object, *inputs: Any, **__: object) -> int:  # noqa: ANN401
    return 2 * _deform_kernel(*inputs)


def _linear(x: Shape, _: object, __: object, weight: Shape, *___: object, **____: object) -> int:
    """The matrix product of a linear layer of normalised tokens."""
    return 2 * x[0] * x[1] * weight[0] * weight[1]


def _linear_backward(_: object, *inputs: Any, **__: object) -> int:  # noqa: ANN401
    return 2 * _linear(*inputs)


def _attention(qkv: Shape, _: object, query: Shape, *__: object, **___: object) -> int:
    """The two batched products of window attention."""
    return 4 * qkv[0] * query[0] * query[1] ** 2 * (qkv[2] // 3)


def _attention_backward(_: object, *inputs: Any, **__: object) -> int:  # noqa: ANN401
    return 2 * _attention(*inputs)


FORMULAS = {
    torch.ops.vrtspike.guided_deform_conv: _deform,
    torch.ops.vrtspike.guided_deform_conv_backward: _deform_backward,
    torch.ops.vrtspike.deform_by_kernel: _deform_kernel,
    torch.ops.vrtspike.deform_by_kernel_backward: _deform_kernel_backward,
    torch.ops.vrtspike.normalised_linear: _linear,
    torch.ops.vrtspike.normalised_linear_backward: _linear_backward,
    torch.ops.vrtspike.window_attention: _attention,
    torch.ops.vrtspike.window_attention_backward: _attention_backward,
}
