from __future__ import annotations

import json
import os

import pytest
import torch

from tests.fake_driver import pynvml as fake
from vrtspike.errors import RunError
from vrtspike.evaluation.device import take_device
from vrtspike.monitoring import nvml
from vrtspike.monitoring.nvml import installed_gpus


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


def test_what_is_computed_on_is_what_is_held(tmp_path, monkeypatch):
    """The driver is a file of answers; nothing is computed."""
    gpus = [
        {"uuid": f"GPU-{name}", "total": 40, "used": used} for name, used in (("a", 30), ("b", 0))
    ]
    (tmp_path / "gpus.json").write_text(json.dumps(gpus))
    monkeypatch.setattr(nvml, "pynvml", fake)
    monkeypatch.setenv("FAKE_GPUS", str(tmp_path / "gpus.json"))
    monkeypatch.setenv("VRTSPIKE_GPU_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # restored after the test
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with take_device("auto", patience_s=0) as device:
        assert device.type == "cuda"
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-b"
        # Another one here may only have what this one holds.
        with pytest.raises(RunError, match="are free"), take_device("cuda", patience_s=0):
            pass
