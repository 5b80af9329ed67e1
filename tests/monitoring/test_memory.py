from __future__ import annotations

import subprocess
import sys

import torch
from torch import nn

from vrtspike.monitoring.memory import (
    gpu_categories,
    measure_memory,
    memory_record,
    memory_warning,
)

CPU = torch.device("cpu")


def test_children_and_system_are_measured():
    before = measure_memory(CPU)
    hold = "import sys; held = bytearray(200 << 20); print('held', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "held\n"
    during = measure_memory(CPU)
    child.communicate()
    assert during["children_mb"] - before["children_mb"] >= 200
    assert 0 < during["process_mb"] < during["system_total_mb"]
    assert during["gpu"] is None


def test_full_memory_warns_with_the_keys_to_lower():
    record = memory_record(7, CPU)
    assert (record["kind"], record["step"]) == ("memory", 7)
    assert memory_warning({**record, "system_percent": 89.0}) is None
    warning = memory_warning({**record, "system_percent": 93.0})
    assert "93 % full" in warning
    assert "DATA.CACHE_SIZE_GB" in warning
    assert "DATALOADER.TRAIN_WORKERS" in warning


def test_categories_add_up_parameters_gradients_and_moments():
    model = nn.Linear(512, 512, bias=False)
    optimizer = torch.optim.AdamW(model.parameters())
    assert gpu_categories(model, optimizer, CPU)["gradients_mb"] == 0
    model(torch.ones(1, 512)).sum().backward()
    optimizer.step()
    found = gpu_categories(model, optimizer, CPU)
    assert (found["parameters_mb"], found["gradients_mb"], found["optimizer_mb"]) == (1.0, 1.0, 2.0)
    assert found["activations_mb"] is found["peak_mb"] is None
