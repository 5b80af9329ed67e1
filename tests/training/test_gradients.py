from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.training.operations import Operations
from vrtspike.training import gradients
from vrtspike.training.gradients import FlatGradients


@pytest.fixture
def model() -> nn.Module:
    """Two types, two layouts, a parameter without part in the loss, one that is fixed."""
    parts = {
        "conv": nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last),
        "narrow": nn.Linear(5, 1, dtype=torch.bfloat16),
        "idle": nn.Linear(2, 2),
        "fixed": nn.Linear(2, 2).requires_grad_(False),
    }
    return nn.ModuleDict(parts)


def backward(model: nn.Module) -> None:
    loss = model["conv"](torch.ones(1, 2, 3, 3)).sum() * 2
    (loss + model["narrow"](torch.ones(1, 5, dtype=torch.bfloat16)).sum().float()).backward()


def test_gradients_keep_their_values_and_then_their_place(model):
    backward(model)
    before = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    flat = FlatGradients(model.parameters())
    assert sorted(str(buffer.dtype) for buffer in flat.buffers) == [
        "torch.bfloat16",
        "torch.float32",
    ]
    places = {name: p.grad.data_ptr() for name, p in model.named_parameters() if name in before}
    assert all(place % 16 == 0 for place in places.values())
    assert model["conv"].weight.grad.stride() == model["conv"].weight.stride()
    backward(model)
    for name, parameter in model.named_parameters():
        if name in before:
            assert torch.equal(parameter.grad, 2 * before[name]), name
            assert parameter.grad.data_ptr() == places[name]
        else:
            assert parameter.grad is None, name


def test_buffers_hold_all_gradients_and_nothing_else(model):
    backward(model)
    flat = FlatGradients(model.parameters())
    total = sum(float(p.grad.float().sum()) for p in model.parameters() if p.grad is not None)
    assert sum(float(buffer.float().sum()) for buffer in flat.buffers) == total
    kept = flat.copy()
    flat.zero()
    assert not any(p.grad.any() for p in model.parameters() if p.grad is not None)
    backward(model)
    flat.add(kept)
    assert sum(float(buffer.float().sum()) for buffer in flat.buffers) == 2 * total


def test_gradients_of_a_pass_are_added_all_at_once(model):
    backward(model)
    flat = FlatGradients(model.parameters())
    once, places = flat.copy(), [buffer.data_ptr() for buffer in flat.buffers]
    with Operations() as seen, flat.adding():
        backward(model)
    # A list of each type, and no addition of its own for any parameter.
    assert [name for name in seen.names if "add_" in name] == ["_foreach_add_"] * 2
    assert [buffer.data_ptr() for buffer in flat.buffers] == places
    for buffer, before in zip(flat.buffers, once, strict=True):
        assert torch.equal(buffer, 2 * before)
    backward(model)  # in their places again
    assert torch.equal(flat.buffers[0], 3 * once[0])


def test_strides_that_mean_nothing_do_not_take_lists_apart():
    # A map of one channel: a gradient may come with any stride along it.
    layer = nn.Conv2d(1, 2, 3)
    layer(torch.ones(1, 1, 3, 3)).sum().backward()
    flat = FlatGradients(layer.parameters())
    once = flat.copy()[0]
    with flat.adding():
        for parameter in layer.parameters():
            parameter.grad = torch.ones_like(parameter)
        layer.weight.grad = torch.ones(2, 9).as_strided((2, 1, 3, 3), (9, 1, 3, 1))
        given = gradients._like(torch.zeros(2, 1, 3, 3), layer.weight.grad)
        assert given.stride() == (9, 9, 3, 1)
        assert given.data_ptr() == layer.weight.grad.data_ptr()
    assert torch.equal(flat.buffers[0], once + (once != 0))


def test_what_has_no_part_in_a_pass_keeps_its_gradient(model):
    backward(model)
    flat = FlatGradients(model.parameters())
    narrow = model["narrow"].weight.grad.clone()
    with flat.adding():
        model["conv"](torch.ones(1, 2, 3, 3)).sum().backward()
    assert torch.equal(model["narrow"].weight.grad, narrow)


def test_a_pass_that_fails_adds_nothing(model):
    backward(model)
    flat = FlatGradients(model.parameters())
    once = flat.copy()

    def failing() -> None:
        with flat.adding():
            backward(model)
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        failing()
    for buffer, before in zip(flat.buffers, once, strict=True):
        assert torch.equal(buffer, before)
    backward(model)
    assert torch.equal(flat.buffers[0], 2 * once[0])


def test_released_gradients_are_made_anew(model):
    backward(model)
    flat = FlatGradients(model.parameters())
    flat.release()
    assert all(p.grad is None for p in model.parameters())
    backward(model)
    flat.zero()
    assert model["conv"].bias.grad.any()
