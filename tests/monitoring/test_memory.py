"""Records of memory: processes, system, GPU, tensors and warnings."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest
import torch
from torch import nn

from vrtspike.analysis.diagnosis.memory_symptoms import full_memory
from vrtspike.analysis.diagnosis.symptom import RunFacts
from vrtspike.analysis.run_measurements import Memory, RunMeasurements
from vrtspike.config.run_schema import RunSettings
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.monitoring.memory import (
    categories_line,
    gpu_categories,
    gpu_utilization,
    measure_memory,
    memory_line,
    memory_warnings,
)

CPU = torch.device("cpu")


HOLD = "import sys; held = bytearray(300 << 20); print('held', flush=True); sys.stdin.read()"


def test_children_of_any_depth_and_the_system_are_measured():
    before = measure_memory(CPU)
    child = subprocess.Popen(
        ["sh", "-c", f'{sys.executable} -c "{HOLD}"; true'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "held\n"
    during = measure_memory(CPU)
    child.communicate()
    # The memory of other children, such as workers of other tests, may shrink meanwhile.
    assert during["children_mb"] - before["children_mb"] >= 200
    assert 0 < during["process_mb"] < during["system_total_mb"]
    # The system counts both approximately.
    assert 0.9 * during["process_mb"] <= during["process_peak_mb"] < during["system_total_mb"]
    assert during["gpu"] is None
    # Used is what is not available; both are rounded to whole megabytes.
    share = 100 * during["system_used_mb"] / during["system_total_mb"]
    assert during["system_percent"] == pytest.approx(share, abs=0.1)
    assert during["system_total_mb"] == psutil.virtual_memory().total // 2**20


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA driver")
def test_a_driver_without_utilisation_is_no_error():
    assert gpu_utilization(torch.device("cuda", 0)) is None


def test_full_memory_warns_with_the_keys_to_lower():
    def warnings(percent: float, peak: int) -> list[str]:
        gpu = {"peak_mb": peak, "total_mb": 1000}
        record = {**measure_memory(CPU), "system_percent": percent, "gpu": gpu}
        return list(memory_warnings(record, DeblurringSettings()))

    counts = [len(warnings(*at)) for at in ((90.0, 900), (90.1, 900), (90.0, 901))]
    assert counts == [0, 1, 1]
    system, gpu = warnings(93.0, 930)
    for warning, keys in (
        (system, ("DATA.CACHE_SIZE_GB", "DATALOADER.TOTAL_WORKERS")),
        (gpu, ("TRAIN.OPTIM.TYPE", "DATA.CROP_SIZE")),
    ):
        assert "93 % full" in warning
        assert all(key in warning for key in keys)


def test_a_task_without_a_cache_has_no_key_for_it():
    record = {**measure_memory(CPU), "system_percent": 95.0, "gpu": None}
    (warning,) = memory_warnings(record, RunSettings())
    assert "in workers); lower DATALOADER.TOTAL_WORKERS before" in warning
    for data in ({"CACHE_SIZE_GB": 0}, {"USE_RAM_CACHE": False}):
        (without_cache,) = memory_warnings(
            record, DeblurringSettings.model_validate({"DATA": data})
        )
        assert without_cache == warning
    for loader, advice in (
        ({"TRAIN_WORKERS": 3}, "lower DATALOADER.TRAIN_WORKERS"),
        ({"TRAIN_WORKERS": 0}, "end other programs"),
        ({"TOTAL_WORKERS": 0}, "end other programs"),
    ):
        settings = RunSettings.model_validate({"DATALOADER": loader})
        (warning,) = memory_warnings(record, settings)
        assert f"in workers); {advice} before" in warning


@pytest.mark.parametrize("percent", [89.9, 90.0, 90.1])
@pytest.mark.parametrize("loader", [{}, {"TRAIN_WORKERS": 6}])
def test_a_warning_and_a_finding_have_one_limit_and_one_key(percent, loader):
    settings = DeblurringSettings.model_validate({"DATALOADER": loader})
    record = {**measure_memory(CPU), "system_percent": percent, "gpu": None}
    measurements = RunMeasurements(memory=Memory(system_percent=percent))
    finding = full_memory.find(RunFacts(measurements, settings))
    warnings = list(memory_warnings(record, settings))
    assert len(warnings) == (finding is not None)
    for warning in warnings:
        (key,) = (key for key in finding.keys if key.endswith("_WORKERS"))
        assert key in warning


def test_categories_add_up_parameters_gradients_and_moments():
    model = nn.Linear(512, 512, bias=False)
    model.register_buffer("table", torch.zeros(512, 512, dtype=torch.float64))
    optimizer = torch.optim.AdamW(model.parameters())
    assert gpu_categories(model, optimizer, CPU)["gradients_mb"] == 0
    model(torch.ones(1, 512)).sum().backward()
    optimizer.step()
    result = gpu_categories(model, optimizer, CPU)
    assert (result["parameters_mb"], result["gradients_mb"], result["optimizer_mb"]) == (
        3.0,
        1.0,
        2.0,
    )
    assert result["activations_mb"] is result["peak_mb"] is None
    line = "memory by category: parameters 3.0 MB, gradients 1.0 MB, optimizer 2.0 MB"
    assert categories_line(result) == line


def test_a_line_shows_process_system_gpu_and_cache():
    cache = {
        **{"hits": 30, "misses": 10, "evictions": 2, "items": 8, "hit_rate": 0.75},
        **{"limit_mb": 512.0, "full": True},
    }
    record = {"step": 200, **measure_memory(CPU), "cache": cache}
    gpu = {"allocated_mb": 900, "reserved_mb": 1200, "peak_mb": 1100, "total_mb": 24000}
    line = memory_line({**record, "gpu": gpu})
    assert line.startswith(f"memory after step 200: process {record['process_mb']} MB and ")
    assert "GPU 900 MB allocated, 1200 MB reserved, peak 1100 MB of 24000 MB" in line
    assert line.endswith("cache 8 items, full, limit 512 MB, 30 hits, 10 misses (75% hits)")
    assert "GPU" not in memory_line(record)
