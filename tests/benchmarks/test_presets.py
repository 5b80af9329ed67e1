"""The page of what the presets cost."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def presets(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import presets

    return presets


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The counted presets, without any GPU."""
    counted = (BENCHMARKS / "results/presets_cpu.json").read_text()
    (tmp_path / "presets_cpu.json").write_text(counted)
    return tmp_path


PARTS: dict[str, Any] = {
    "machine": {
        "figures": {
            "device": {"name": "Some GPU", "capability": "9.0"},
            "cuda": {"torch": "13.0"},
            "versions": {"torch": "2.11.0"},
        }
    },
    "step": {
        "figures": {
            "warnings": ["a kernel is not used"],
            "baseline, no checkpointing": {
                "own": {"clips/s": 8.0, "peak GiB": 31.25},
                "explicit": {"reason": "out of memory\nand more"},
            },
            "baseline": {
                "own": {"clips/s": 5.0, "peak GiB": 9.5},
                "explicit": {"clips/s": 2.0, "peak GiB": 20.0},
                "times explicit": 2.5,
                "definitions": {"clips/s": 1.25, "peak GiB": 21.0},
                "times definitions": 4.0,
            },
        }
    },
}


def rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("|")]


def test_measured_presets_stand_on_the_page(presets, results) -> None:
    (results / "gpu_some_gpu.json").write_text(json.dumps({"parts": PARTS}))
    page = presets.page(results)
    assert "Some GPU, capability 9.0, CUDA 13.0, PyTorch 2.11.0" in page
    assert rows(page)[-2:] == [
        "| `baseline` | 5.00 | 9.5 GiB | 2.00 | 20.0 GiB | 2.5 x | 1.25 | 21.0 GiB | 4.0 x |",
        "| baseline, no checkpointing | 8.00 | 31.2 GiB | out of memory | - | - | - | - | - |",
    ]
    assert "No figures of a GPU" not in page


def test_a_gpu_that_was_cut_off_before_the_steps_is_left_out(presets, results) -> None:
    machine_alone = {"parts": {"machine": PARTS["machine"]}}
    (results / "gpu_some_gpu.json").write_text(json.dumps(machine_alone))
    assert "No figures of a GPU" in presets.page(results)


def test_the_cost_of_phases_is_their_mean_over_the_epochs(presets) -> None:
    row = {"tflop_per_clip": 8.0, "phases": [[64, 30, 1.0], [128, 10, 5.0]]}
    assert presets.training_tflop(row) == 2.0
    assert presets.training_tflop({"tflop_per_clip": 8.0, "phases": []}) == 8.0


def test_what_a_preset_is_good_for_is_said_with_counted_figures(presets) -> None:
    counted = {"tflop_per_clip": 20.0, "kept_gib": 8.0, "batch": 1, "phases": []}
    found = {name: copy.deepcopy(counted) for name in ("baseline", "opt", "compact")}
    found["opt"]["tflop_per_clip"] = 21.0
    found["compact"] |= {"tflop_per_clip": 15.0, "kept_gib": 12.0, "batch": 2}
    found["compact"]["phases"] = [[128, 10, 4.0], [256, 10, 15.0]]
    said = " ".join(presets.which(found).split())
    assert "`opt`: another network of the same cost, not a cheaper one: 5.0 % more" in said
    assert "costs 25.0 % less than with `baseline` and keeps 25.0 % less" in said
    assert "crops of 128 x 128, so that the whole training costs 52.5 % less" in said
