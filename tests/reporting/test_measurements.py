from __future__ import annotations

import math

import pandas as pd
import pytest

from tests.reporting.results import make_alignment, make_run
from vrtspike.analysis.performance import analyze_run
from vrtspike.deblurring.metrics.registry import METRICS
from vrtspike.errors import RunError
from vrtspike.reporting.measurements import (
    ALIGNMENT_COLUMNS,
    curves_of,
    read_alignment,
    read_performance,
    thin,
    training_curves,
)


@pytest.mark.parametrize(
    ("steps", "values", "points", "expected"),
    [
        # Neighbours are averaged, the last step stands for them; what is not finite is left out.
        (
            *([1, 2, 3, 4, 5, 6, 7], [1.0, 3.0, 5.0, math.inf, -math.inf, 7.0, 9.0], 4),
            ([2, 4, 6, 7], [2.0, 5.0, 7.0, 9.0], 2),
        ),
        ([10, 20], [math.nan, 0.123456789], 100, ([10, 20], [None, 0.12346], 1)),
    ],
)
def test_curves_are_thinned(steps, values, points, expected):
    found = thin(pd.Series(steps), pd.Series(values), points)
    assert tuple(found.values()) == expected


def test_curves_are_those_of_columns_with_numbers_in_the_order_of_steps():
    table = pd.DataFrame({"step": [2, 1], "a": [4.0, 3.0], "b": [math.nan, math.nan]})
    found = curves_of(table, {"a": "first", "b": "second", "c": "third"})
    assert found == {"first": {"steps": [1, 2], "values": [3.0, 4.0], "width": 1}}


def test_training_and_validation_of_a_log(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text(
        "kind,step,loss,losses.charbonnier,losses.lpips,lr,psnr\n"
        "train,1,0.5,0.4,0.1,0.001,\n"
        "train,2,0.3,0.2,0.1,0.001,\n"
        "validation,2,,,,,31.5\n"
    )
    found = training_curves(path, METRICS)
    assert list(found["train"]) == ["loss", "loss: charbonnier", "loss: lpips", "learning rate"]
    assert found["train"]["loss"]["values"] == [0.5, 0.3]
    assert found["validation"] == {"PSNR, dB": {"steps": [2], "values": [31.5], "width": 1}}
    # A single loss is not shown twice.
    path.write_text("kind,step,loss,losses.charbonnier\ntrain,1,0.5,0.5\n")
    assert list(training_curves(path, METRICS)["train"]) == ["loss"]


@pytest.fixture
def analysed(tmp_path):
    output = tmp_path / "performance/a"
    return analyze_run(make_run(tmp_path, "a"), output), output


def test_figures_sections_curves_and_findings(analysed):
    findings, folder = analysed
    found = read_performance(folder, "print of a")
    expected = {
        "step_ms": 1000.0, "data_share": 0.3, "gpu_peak_mb": 10_000.0, "samples_per_second": 2.0,
        "process_mb": 1000.0, "gpu_total_mb": 80_000.0,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["parts"]["backward"] == pytest.approx(0.4)
    assert found["sections"][1] == ["step/data", 1.0, 300.0, 300.0, 0.3]
    assert found["throughput"]["samples per second"]["values"][1:] == [2.0] * 39
    assert found["memory"]["GPU, peak"]["values"] == [10_000.0]
    assert [f["symptom"] for f in found["findings"]] == [f.symptom for f in findings]
    assert "DATALOADER.TOTAL_WORKERS: cpu*1.0" in found["findings"][0]["keys"]


def test_without_an_analysis_the_reason_is_said(analysed):
    _, folder = analysed
    assert read_performance(folder / "none", "x") == {"reason": "not analysed"}
    (reason,) = read_performance(folder, "b").values()
    assert "belongs to another run (print of a, not b)" in reason
    (folder / "timing.csv").unlink()
    with pytest.raises(RunError, match=r"timing\.csv: no such file.*analyse again"):
        read_performance(folder, "print of a")
    (folder / "findings.json").write_text("[")
    with pytest.raises(RunError, match="damaged"):
        read_performance(folder, "print of a")


def test_medians_and_extremes_of_every_sequence(tmp_path):
    found = read_alignment(make_alignment(tmp_path))
    assert (found["dataset"], found["exposures"], found["lowest"]) == ("gopro", 4, "test/b")
    assert (found["offset"], found["correlation"]) == (0.5, 0.9)
    a, b = (dict(zip(ALIGNMENT_COLUMNS, row, strict=True)) for row in found["rows"])
    assert (a["sequence"], a["exposures"], a["offset"]) == ("a", 1, 0.5)
    assert list(b.values())[2:] == [3, 0.5, -1.0, 2.0, 0.8, 0.7, 0.9]


@pytest.mark.parametrize(
    ("rows", "exposures", "lowest"),
    [
        ("", 0, ""),
        ("test,a,000001,0,88,9,40.0,,\n", 1, ""),
        # Names that look like nothing are names.
        ("test,NA,1,0,88,9,40.0,39.0,0.9\ntest,null,1,0,88,9,40.0,,\n", 2, "test/NA"),
    ],
)
def test_where_little_can_be_said(tmp_path, rows, exposures, lowest):
    found = read_alignment(make_alignment(tmp_path, rows=rows))
    assert (found["exposures"], found["lowest"]) == (exposures, lowest)
    assert [row[1] for row in found["rows"]] == [line.split(",")[1] for line in rows.splitlines()]
    assert read_alignment(tmp_path / "none/alignment.csv") is None
