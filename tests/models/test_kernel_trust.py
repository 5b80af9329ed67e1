"""Where kernels are taken without a trial."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.models.kernel_trust import is_counted


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
