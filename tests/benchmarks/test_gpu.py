"""``benchmarks/gpu.py``: its parts at tiny sizes on a CPU, and how their ends are told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

import gpu
from tests.helpers.presets import deblurring_presets
from vrtspike.deblurring.training_cost import clip_cost
from vrtspike.io.files import read_json

CPU = torch.device("cpu")


def test_all_deblurring_presets_that_train_are_measured(repository):
    presets = deblurring_presets(repository)
    trained = {name for name, settings in presets.items() if settings.unchanged_weights is None}
    assert {*gpu.FIRST, *gpu.MORE} == trained
    assert sum(gpu.PARTS[name][0] for name in gpu.DEFAULT) <= 480


RARELY = pytest.mark.endurance
"""Who measures a GPU sees at once that the program does not start."""


@pytest.mark.parametrize(
    "part",
    [
        "training",
        "restoring",
        pytest.param("compiled", marks=RARELY),
        pytest.param("attention", marks=RARELY),
    ],
)
def test_parts_are_tried_on_a_cpu(part, monkeypatch):
    if part == "compiled":  # the other model takes half a minute, and is compiled in its own tests
        monkeypatch.setattr(gpu, "SMALL", ["light_demo"])
    measurements = dict(gpu.PARTS[part][1](CPU))
    assert list(measurements) == list(gpu.ATTENTION if part == "attention" else gpu.SMALL)
    for row in measurements.values():
        assert row["frames/s" if part == "restoring" else "clips/s"] > 0


def test_what_was_counted_stands_beside_what_is_measured():
    light = gpu.load("light")
    row = clip_cost("light", light)
    assert dict(gpu.counted(["light"]))["light"] == {
        "operations": row.operations,
        "moved_tb": light.TRAIN.BATCH_SIZE * row.moved_tb,
        "tflop": light.TRAIN.BATCH_SIZE * row.run_tflop,
    }


def test_kernels_are_sorted_by_time(monkeypatch):
    monkeypatch.setattr(gpu, "SMALL", ["light_demo"])
    kernels = list(gpu.kernels(CPU))
    assert len(kernels) == gpu.MAX_KERNELS
    assert kernels[0][1]["ms"] > kernels[-1][1]["ms"] > 0
    assert 0 < sum(row["share"] for _, row in kernels) <= 1
    assert any("convolution_backward" in name for name, _ in kernels)


def test_results_that_differ_do_not_agree(monkeypatch):
    monkeypatch.setattr(gpu, "SMALL", ["light_demo"])
    for factor, agrees in ((1.0, True), (1.2, False)):
        factors = iter([1.0, factor, factor])  # on the CPU, then in each precision

        def loss(restored: torch.Tensor, factors: Iterator[float] = factors) -> torch.Tensor:
            return next(factors) * restored.float().mean()

        monkeypatch.setattr(gpu, "loss", loss)
        agreement = dict(gpu.agreement(CPU))
        assert agreement["light_demo, 32"]["agrees"] is agrees
        assert agreement["light_demo, 32"]["output"] == 0
        assert 0 < agreement["light_demo, bf16-mixed"]["gradients"]


@RARELY
def test_a_part_that_fails_or_is_cut_off_makes_the_whole_fail(tmp_path, capsys, monkeypatch):
    call = ["--device", "cpu", "--output", str(tmp_path)]
    assert gpu.main([*call, "--only", "attention", "--patience", "0.001"]) == 1
    (file,) = tmp_path.glob("gpu_*.json")
    results = read_json(file)
    assert results["parts"]["attention"]["status"].startswith("cut off after")
    assert set(results["counted"]) == {*gpu.FIRST, *gpu.MORE}
    assert capsys.readouterr().out.startswith("attention: cut off after 0 s")
    result = gpu.run_apart("attention", "nonsense", 5.0)
    assert (result["status"], result["measurements"]) == ("failed", {})
    assert "nonsense" in "".join(gpu.table("attention", result))


@RARELY
def test_make_gpu_without_a_gpu_fails_with_a_message(repository):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("MAKEFLAGS", None)
    done = subprocess.run(
        ["make", "--no-print-directory", "gpu", f"PYTHON={sys.executable}"],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    first, *rest = done.stderr.splitlines()
    assert first.startswith("error: no GPU here")
    assert all(line.startswith("make") for line in rest)
