"""The kernels of every operation against its reference, by the programs beside this file."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from tests.deblurring.models.checks import run_check

CHECKS = ("window_attention", "projections", "feed_forward", "deform_conv")
pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton"),
    pytest.mark.parametrize("name", CHECKS),
]


def test_kernels_in_the_interpreter(name: str) -> None:
    run_check(f"ops/{name}_check.py", "quick")


@pytest.mark.endurance
@pytest.mark.slow
def test_kernels_of_all_sizes_in_the_interpreter(name: str) -> None:
    run_check(f"ops/{name}_check.py")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_kernels_on_the_device(name: str) -> None:
    run_check(f"ops/{name}_check.py", interpreted=False)
