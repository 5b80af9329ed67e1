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
# Other depths, windows and pieces of what the rest already counts, 8 s each.
LONG = {"baseline", "compact", "low_ram", "opt", "reproduce"}
REFRESH = "run: python benchmarks/roofline.py"
# Lines of docs/gpu.md that join parts.
TOKENS = "norms, projections, feed-forward layers, residuals"
JOINED = {
    TOKENS: (
        "norms and projections",
        "feed-forward layers",
        "pointwise in blocks",
        "matrix products",
        "layer norms",
    ),
    "offset convolutions, warping, all else": ("offset convolutions, warping", "the rest"),
    "flow": ("flow (SpyNet)",),
}


@pytest.fixture
def roofline(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import roofline

    return roofline


def test_every_preset_is_counted(roofline: ModuleType) -> None:
    assert set(RESULTS) == {*roofline.presets.PRESETS, *roofline.TWINS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *sorted(set(RESULTS) - set(SAME) - LONG - {"explicit", "definitions"}),
        *(pytest.param(name, marks=pytest.mark.endurance) for name in sorted(LONG)),
    ],
)
def test_a_step_is_what_was_written_down(roofline: ModuleType, name: str) -> None:
    # Without times, for which every kernel would have to be compiled; loops of these are held by
    # the tables of their machine code.
    compare(roofline.count(roofline.presets.load(name), gpus=()), RESULTS[name])


@pytest.mark.endurance
@pytest.mark.parametrize("name", ["explicit", "definitions"])
def test_so_is_what_presets_are_compared_with(roofline: ModuleType, name: str) -> None:
    settings = roofline.presets.load("baseline", roofline.EXPLICIT)
    with roofline.TWINS[name]():
        compare(roofline.count(settings, gpus=()), RESULTS[name])


def compare(found: dict[str, Any], held: dict[str, Any]) -> None:
    """Counted now, and as it was written down."""
    assert found["kernels"] == held["kernels"], REFRESH
    for figure in ("gb", "tflop", "kept_gib"):
        assert found[figure] == pytest.approx(held[figure], rel=0.002), f"{figure}; {REFRESH}"
    # What is in use at most also depends on when Python frees what nobody holds.
    assert found["peak_gib"] == pytest.approx(held["peak_gib"], rel=0.03), f"peak; {REFRESH}"


@pytest.mark.parametrize(("name", "as_in"), SAME.items())
def test_presets_with_the_same_step(name: str, as_in: str) -> None:
    same: list[dict[str, Any]] = [RESULTS[key] for key in (name, as_in)]
    assert same[0]["parts"] == same[1]["parts"]


def test_the_page_shows_where_a_step_goes(repository: Path) -> None:
    page = (repository / "docs/gpu.md").read_text(encoding="utf-8")
    row = RESULTS["fast"]
    seen = []
    for line in page.splitlines():
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        parts = JOINED.get(cells[0], (cells[0],))
        if cells[0] == "all":
            costs = [row]
        elif all(part in row["parts"] for part in parts):
            costs = [row["parts"][part] for part in parts]
            seen += parts
        else:
            continue
        kernels, gb, ms = (float(cell.replace(",", "")) for cell in cells[1:4])
        assert kernels == sum(cost["kernels"] for cost in costs), cells[0]
        assert gb == pytest.approx(sum(cost["gb"] for cost in costs), abs=0.6), cells[0]
        assert ms == pytest.approx(sum(cost["ms"]["H200"] for cost in costs), abs=0.6), cells[0]
    assert sorted(seen) == sorted(row["parts"])
    assert f"{1e3 / row['ms']['H200']:.1f} clips a second" in page


def test_what_does_not_fit_has_no_speed(roofline: ModuleType) -> None:
    row = {"ms": {"4090": 250.0, "A6000": 500.0}, "peak_gib": 24.5}
    cells = roofline.presets.ESTIMATED
    assert cells["clips/s on 4090"](row) == "too little memory"
    assert cells["clips/s on A6000"](row) == "2.00"
    assert cells["clips/s on 4090"]({**row, "peak_gib": 23.5}) == "4.00"
