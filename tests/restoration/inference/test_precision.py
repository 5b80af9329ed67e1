"""Devices and types of matrix products that a model may be loaded with."""

from __future__ import annotations

import pytest
import torch

from vrtspike.restoration.inference.precision import choose_device, choose_precision
from vrtspike.system.errors import ConfigError

CPU = torch.device("cpu")


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.mark.parametrize("device", ["cpu", CPU, None])
def test_a_machine_without_a_gpu_computes_on_its_cpu(no_gpu, device):
    assert choose_device(device) == CPU


@pytest.mark.parametrize("device", ["gpu", "mps", "meta", "cuda", "cuda:0", ""])
def test_anything_else_is_refused_without_a_gpu(no_gpu, device):
    with pytest.raises(ConfigError, match=f"^device: found {device}, expected cpu; .*no CUDA GPU"):
        choose_device(device)


@pytest.mark.parametrize(
    ("device", "chosen"),
    [
        (None, "cuda"),
        ("cuda", "cuda"),
        ("cuda:1", "cuda:1"),
        (torch.device("cuda:0"), "cuda:0"),
        ("cpu", "cpu"),
    ],
)
def test_each_gpu_of_the_machine_can_be_chosen(two_gpus, device, chosen):
    assert choose_device(device) == torch.device(chosen)


@pytest.mark.parametrize("device", ["gpu", "mps", "cuda:2", "cuda:x"])
def test_devices_that_the_machine_lacks_are_refused(two_gpus, device):
    expected = f"^device: found {device}, expected one of cpu, cuda, cuda:0, cuda:1$"
    with pytest.raises(ConfigError, match=expected):
        choose_device(device)


def test_the_default_precision_of_a_cpu_is_exact():
    assert choose_precision("auto", CPU) == "float32"
    assert choose_precision("bfloat16", CPU) == "bfloat16"


@pytest.mark.parametrize(
    ("precision", "message"),
    [("double", "found double, expected auto, float32, bfloat16, float16"), ("float16", "a CPU")],
)
def test_other_precisions_are_refused(precision, message):
    with pytest.raises(ConfigError, match=f"^precision: .*{message}"):
        choose_precision(precision, CPU)
