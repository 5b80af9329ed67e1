"""The page of what the presets cost."""

from __future__ import annotations

from pathlib import Path

import pytest

import presets

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The counted presets, without any GPU."""
    for name in ("presets_cpu.json", "roofline.json"):
        (tmp_path / name).write_text((BENCHMARKS / "results" / name).read_text())
    return tmp_path


def test_that_figures_are_counted_is_said_once_at_the_top(results) -> None:
    page = presets.page(results)
    assert page.count("counted, not measured") == 1
    assert page.index("counted, not measured") < page.index("| preset |")


def test_the_cost_of_phases_is_their_mean_over_the_epochs() -> None:
    row = {"tflop_per_clip": 8.0, "phases": [[64, 30, 1.0], [128, 10, 5.0]]}
    assert presets.training_tflop(row) == 2.0
    assert presets.training_tflop({"tflop_per_clip": 8.0, "phases": []}) == 8.0
