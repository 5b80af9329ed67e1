"""The counted cost of a step against what can be computed by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from step_counting import Traffic, TrafficCounter, count_step, count_traffic, fused_attention


def two_layers(*, again: bool) -> tuple[nn.Module, Tensor]:
    """Two linear layers of 8 inputs and outputs with a sigmoid between them, and 5 rows."""
    layers = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Sigmoid(), nn.Linear(8, 8, bias=False))
    return layers, torch.ones(5, 8, requires_grad=again)


@pytest.mark.parametrize("again", [False, True])
def test_two_linear_layers_by_hand(again: bool) -> None:
    layers, x = two_layers(again=again)

    def loss() -> Tensor:
        result = checkpoint(layers, x, use_reentrant=False) if again else layers(x)
        return result.sum()

    cost = count_step(layers, (x,), loss)
    product, rows = 2 * 5 * 8 * 8, 4 * 5 * 8
    assert cost.forward_flop == 2 * product
    # Gradients of two weights and of the sigmoid's result; with x learned that of x, and the
    # first layer of what is computed again at least: PyTorch stops when all it needs is there.
    if again:
        assert cost.flop >= 2 * product + 4 * product + product
    else:
        assert cost.flop == 2 * product + 3 * product
    # The input, the sigmoid's result and its gradient, the loss and its gradient at least.
    assert cost.peak_bytes >= 3 * rows + 8


def test_a_depthwise_convolution_has_equal_arithmetic_for_each_gradient() -> None:
    layer = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
    x = torch.ones(1, 6, 10, 10, requires_grad=True)
    cost = count_step(layer, (x,), lambda: layer(x).sum())
    assert cost.forward_flop == 2 * 6 * 9 * 100
    assert cost.flop == 3 * cost.forward_flop


def test_operations_and_traffic_by_hand() -> None:
    layers, x = two_layers(again=False)
    traffic = count_traffic(layers, lambda: layers(x).sum())
    rows = 4 * 5 * 8
    weight = 4 * 8 * 8
    number = 4
    product = 2 * rows + weight
    forward = [product, 2 * rows, product, rows + number]
    # The gradient of the sum, which is expanded to all rows; that of the second weight, of its
    # input, of the sigmoid, of the first weight.
    expanded = number + rows + weight
    backward = [2 * number, expanded, expanded, 3 * rows, product]
    # Gradients are added to those of the micro-steps before.
    accumulation = [3 * weight, 3 * weight]
    operations = [*forward, *backward, *accumulation]
    assert traffic == Traffic(len(operations), sum(operations))
    first = count_traffic(layers, lambda: layers(x).sum(), accumulates=False)
    assert first == Traffic(len(forward + backward), sum(forward + backward))


def test_views_and_allocations_are_no_operations() -> None:
    x = torch.ones(4, 4)
    with TrafficCounter() as counter:
        for tensor in (torch.empty(3), x.new_empty(2), torch.empty_like(x), x.view(16), x.detach()):
            assert tensor.numel()
        assert counter.operations == 0
        assert torch.promote_types(torch.bfloat16, torch.float32) == torch.float32
        assert counter.operations == 0
        x.new_zeros(2)
    assert (counter.operations, counter.moved) == (1, x.nbytes + 2 * 4)


def test_attention_is_one_operation_with_its_inputs_and_outputs() -> None:
    tasks, heads, tokens, width = 3, 2, 64, 8
    with FakeTensorMode():
        layers = nn.ParameterList([torch.empty(1, heads, tokens, tokens)])
        x = torch.empty(tasks, heads, tokens, width)

        def loss() -> Tensor:
            return functional.scaled_dot_product_attention(x, x, x, attn_mask=layers[0]).sum()

        with fused_attention():
            traffic = count_traffic(layers, loss)
    number = 4
    operand = 4 * tasks * heads * tokens * width
    bias = 4 * heads * tokens * tokens
    # The kernel keeps the sum of exponentials of each row, and two integers of its random numbers.
    kept = 4 * tasks * heads * tokens + 2 * 8
    forward = [3 * operand + bias + operand + kept, operand + number]
    # The gradient of the bias is one for each task before it is summed.
    gradients = 3 * operand + tasks * bias
    attention = number + 3 * operand + bias + operand + kept + gradients
    backward = [2 * number, attention, tasks * bias + bias]
    accumulation = [3 * bias]
    operations = [*forward, *backward, *accumulation]
    assert traffic == Traffic(len(operations), sum(operations))


def test_recomputed_attention_is_one_operation_again() -> None:
    with FakeTensorMode(), fused_attention():
        layers = nn.ParameterList([torch.empty(1, 2, 64, 64)])
        x = torch.empty(3, 2, 64, 8)

        def attend(bias: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(x, x, x, attn_mask=bias)

        once = count_traffic(layers, lambda: attend(layers[0]).sum())
        twice = count_traffic(
            layers, lambda: checkpoint(attend, layers[0], use_reentrant=False).sum()
        )
    assert twice.operations == once.operations + 1


def test_attention_takes_the_types_of_autocast() -> None:
    with FakeTensorMode(), fused_attention(), torch.autocast("cpu", torch.bfloat16):
        x = torch.empty(1, 2, 8, 8)
        mask = torch.empty(1, 2, 8, 8)
        attended = functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    assert attended.dtype == torch.bfloat16
