from __future__ import annotations

import pytest
import torch

from vrtspike.errors import RunError
from vrtspike.evaluation.device import take_device
from vrtspike.launching.gpus import installed_gpus


def test_the_cpu_is_there_for_everyone():
    with take_device("cpu") as first, take_device("cpu") as second:
        assert first == second == torch.device("cpu")


@pytest.mark.skipif(bool(installed_gpus()), reason="this machine has a GPU")
def test_without_a_gpu_auto_is_the_cpu_and_cuda_is_refused():
    with take_device("auto") as device:
        assert device == torch.device("cpu")
    with pytest.raises(RunError, match="no GPU"), take_device("cuda"):
        pass


def test_hidden_gpus_do_not_count(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with take_device("auto") as device:
        assert device == torch.device("cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not installed_gpus(), reason="needs a CUDA device")
def test_a_gpu_is_taken_where_there_is_one(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # restored after the test
    with take_device("auto") as device:
        assert device.type == "cuda"
