"""What a step of each preset launches and moves on a GPU does not grow unnoticed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vrtspike.files import read_json

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
RESULTS = read_json(BENCHMARKS / "results/roofline.json")["rows"]
# What only the optimiser and the loader tell apart is one step.
SAME = {"low_memory": "baseline"}
REFRESH = "run: python benchmarks/roofline.py"


@pytest.fixture
def roofline(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import roofline

    return roofline


def test_every_preset_is_counted(roofline: ModuleType) -> None:
    assert set(RESULTS) == {*roofline.presets.PRESETS, "explicit"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(RESULTS) - set(SAME) - {"explicit"}))
def test_a_step_is_what_was_written_down(roofline: ModuleType, name: str) -> None:
    held = RESULTS[name]
    found = roofline.count(roofline.presets.load(name))
    assert found["kernels"] == held["kernels"], REFRESH
    for figure in ("gb", "tflop", "kept_gib"):
        assert found[figure] == pytest.approx(held[figure], rel=0.002), f"{figure}; {REFRESH}"
    # What is in use at most also depends on when Python frees what nobody holds.
    assert found["peak_gib"] == pytest.approx(held["peak_gib"], rel=0.03), f"peak; {REFRESH}"


@pytest.mark.parametrize(("name", "as_in"), SAME.items())
def test_presets_with_the_same_step(name: str, as_in: str) -> None:
    same: list[dict[str, Any]] = [RESULTS[key] for key in (name, as_in)]
    assert same[0]["parts"] == same[1]["parts"]
