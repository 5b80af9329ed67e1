"""The page of what the presets cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import presets

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The counted presets, without any GPU."""
    for name in ("presets_cpu.json", "roofline.json"):
        (tmp_path / name).write_text((BENCHMARKS / "results" / name).read_text())
    return tmp_path


PARTS: dict[str, Any] = {
    "machine": {
        "figures": {
            "device": {"name": "Some GPU", "capability": "9.0"},
            "cuda": {"torch": "13.0"},
            "versions": {"torch": "2.11.0"},
        }
    },
    "steps": {
        "figures": {
            "warnings": ["a kernel is not used"],
            "fast": {
                "own": {"clips/s": 8.0, "peak GiB": 31.25},
                "definitions": {"reason": "out of memory\nand more"},
            },
            "baseline": {
                "own": {"clips/s": 5.0, "peak GiB": 9.5},
                "definitions": {"clips/s": 2.0, "peak GiB": 20.0, "own is faster": 2.5},
                "fused": {"clips/s": 1.25, "peak GiB": 21.0, "own is faster": 4.0},
            },
        }
    },
    "steps beside flex": {
        "figures": {
            "baseline": {
                "own": {"clips/s": 4.0, "peak GiB": 9.5},
                "flex": {"clips/s": 4.0, "peak GiB": 11.0, "own is faster": 1.0},
            },
        }
    },
}


def rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("|")]


def test_measured_presets_stand_on_the_page(results) -> None:
    (results / "gpu_some_gpu.json").write_text(json.dumps({"parts": PARTS}))
    page = presets.page(results)
    assert "Some GPU, capability 9.0, CUDA 13.0, PyTorch 2.11.0" in page
    assert rows(page)[-2:] == [
        "| `baseline` | 5.00 | 9.5 GiB | 2.00 | 20.0 GiB | 2.5 x | 1.25 | 21.0 GiB | 4.0 x "
        "| - | - | - | 4.00 | 11.0 GiB | 1.0 x |",
        "| `fast` | 8.00 | 31.2 GiB | out of memory | - | - | - | - | - | - | - | - | - | - | - |",
    ]
    assert "No figures of a GPU" not in page


def test_that_figures_are_counted_is_said_once_at_the_top(results) -> None:
    page = presets.page(results)
    assert page.count("counted, not measured") == 1
    assert page.index("counted, not measured") < page.index("| preset |")


def test_a_gpu_that_was_cut_off_before_the_steps_is_left_out(results) -> None:
    machine_alone = {"parts": {"machine": PARTS["machine"]}}
    (results / "gpu_some_gpu.json").write_text(json.dumps(machine_alone))
    assert "No figures of a GPU" in presets.page(results)


def test_the_cost_of_phases_is_their_mean_over_the_epochs() -> None:
    row = {"tflop_per_clip": 8.0, "phases": [[64, 30, 1.0], [128, 10, 5.0]]}
    assert presets.training_tflop(row) == 2.0
    assert presets.training_tflop({"tflop_per_clip": 8.0, "phases": []}) == 8.0
