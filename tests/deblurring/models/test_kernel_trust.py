"""Where kernels are taken without a trial."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from vrtspike.deblurring.models.kernel_trust import is_counted, is_trusted

CPU = torch.device("cpu")


def trial(device: torch.device, dtype: torch.dtype) -> float:
    """Saves tensors, and makes gradients and products, as trials do."""
    with torch.enable_grad():
        x = torch.ones(4, 4, device=device, dtype=dtype, requires_grad=True)
        (grad,) = torch.autograd.grad((x @ x).sigmoid().sum(), x)
    return float(grad.isnan().any())


def test_a_trial_inside_of_a_checkpoint_is_none_of_its_business() -> None:
    calls: list[bool] = []

    def layer(x: Tensor) -> Tensor:
        calls.append(is_trusted("a kernel in a checkpoint", trial, CPU, torch.float32))
        return torch.tanh(x) * x

    x = torch.randn(5, requires_grad=True)
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    # The layer runs twice, and is what it is without a checkpoint.
    assert calls == [True, True]
    (expected,) = torch.autograd.grad((torch.tanh(x) * x).sum(), x)
    torch.testing.assert_close(x.grad, expected)


def test_what_a_trial_computes_is_not_counted() -> None:
    with FlopCounterMode(display=False) as counter:
        assert is_trusted("a kernel that is counted", trial, CPU, torch.float32)
        torch.ones(2, 3) @ torch.ones(3, 5)
    assert counter.get_total_flops() == 2 * 2 * 3 * 5


def test_only_tensors_without_data_are_counted() -> None:
    assert not is_counted()
    with FakeTensorMode():
        assert is_counted()


def test_a_step_that_is_compiled_is_not_counted() -> None:
    answers: list[bool] = []

    @torch.compiler.assume_constant_result
    def ask() -> int:
        answers.append(is_counted())
        return 1

    def add(x: Tensor) -> Tensor:
        return x + ask()

    assert torch.compile(add, backend="eager")(torch.ones(1)).item() == 2
    assert answers
    assert not any(answers)
