"""What a step of each preset launches and moves on a GPU does not grow unnoticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roofline
from vrtspike.io.files import read_json

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
RESULTS = read_json(BENCHMARKS / "results/roofline.json")["rows"]
# What only the optimiser and the loader tell apart is one step.
SAME = {"low_memory": "baseline"}
# Other depths, windows and pieces of what the rest already counts, from 5 s on each.
LONG = {
    "baseline", "compact", "fast", "low_ram", "opt", "reproduce", "explicit", "definitions", "rival"
}  # fmt: skip
REFRESH = "run: python benchmarks/roofline.py"
# Below it a step counts as having grown by nothing that matters.
TOLERANCE = 0.005
# Milliseconds on an H200 that a clip of `fast` may take.
MOST_MS = 140.0


def test_every_preset_is_counted() -> None:
    assert set(RESULTS) == {*roofline.presets.PRESETS, *roofline.TWINS}


def test_fast_takes_no_longer_than_it_may() -> None:
    assert RESULTS["fast"]["ms"]["H200"] <= MOST_MS


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *sorted(set(RESULTS) - set(SAME) - LONG),
        *(pytest.param(name, marks=pytest.mark.endurance) for name in sorted(LONG)),
    ],
)
def test_a_step_is_what_was_written_down(name: str) -> None:
    # Without times, for which every kernel would have to be compiled.
    found, held = roofline.count_named(name, gpus=()), RESULTS[name]
    for figure in ("kernels", "gb", "tflop", "kept_gib"):
        assert found[figure] == pytest.approx(held[figure], rel=TOLERANCE), f"{figure}; {REFRESH}"
    # What is in use at most also depends on when Python frees what nobody holds.
    assert found["peak_gib"] == pytest.approx(held["peak_gib"], rel=0.03), f"peak; {REFRESH}"


@pytest.mark.parametrize(("name", "as_in"), SAME.items())
def test_presets_with_the_same_step(name: str, as_in: str) -> None:
    same: list[dict[str, Any]] = [RESULTS[key] for key in (name, as_in)]
    assert same[0]["parts"] == same[1]["parts"]


def test_what_does_not_fit_has_no_speed() -> None:
    row = {"ms": {"4090": 250.0, "A6000": 500.0}, "peak_gib": 14.5, "kept_gib": 10.0, "batch": 2}
    cells = roofline.presets.ESTIMATED
    assert cells["clips/s on 4090"](row) == "too little memory"
    assert cells["clips/s on A6000"](row) == "2.00"
    assert cells["clips/s on 4090"]({**row, "batch": 1}) == "4.00"
