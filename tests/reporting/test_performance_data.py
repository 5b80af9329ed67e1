"""Curves of training on the report page."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from tests.helpers.published_runs import write_lines
from vrtspike.analysis.performance import analyze_run
from vrtspike.analysis.run_logs import read_run_logs
from vrtspike.metrics.registry import METRICS
from vrtspike.reporting.performance_data import curves_of, performance, training_curves


@pytest.mark.parametrize(
    ("steps", "values", "points", "expected"),
    [
        # Neighbours are averaged, the last step stands for them; what is not finite is left out.
        (
            *([1, 2, 3, 4, 5, 6, 7], [1.0, 3.0, 5.0, math.inf, -math.inf, 7.0, 9.0], 4),
            ([2, 4, 6, 7], [2.0, 5.0, 7.0, 9.0], 2),
        ),
        ([10, 20], [math.inf, 0.123456789], 100, ([10, 20], [None, 0.123457], 1)),
        # Points without a finite value are a gap, not a straight line.
        ([1, 2, 3, 4], [1.0, math.nan, None, 2.0], 4, ([1, 2, 3, 4], [1.0, None, None, 2.0], 1)),
        (
            *([1, 2, 3, 4, 5], [1.0, math.nan, math.nan, math.inf, 2.0], 3),
            ([2, 4, 5], [1.0, None, 2.0], 2),
        ),
    ],
)
def test_curves_are_thinned(steps, values, points, expected):
    curves = curves_of(pd.DataFrame({"step": steps, "a": values}), {"a": "first"}, points)
    assert tuple(curves["first"].values()) == expected


def test_curves_are_those_of_columns_with_numbers_in_the_order_of_steps():
    table = pd.DataFrame({"step": [2, 1], "a": [4.0, 3.0], "b": [math.nan, math.nan]})
    curves = curves_of(table, {"a": "first", "b": "second", "c": "third"})
    assert curves == {"first": {"steps": [1, 2], "values": [3.0, 4.0], "width": 1}}


def test_training_and_validation_of_a_log(tmp_path):
    parts = {"charbonnier": 0.4, "lpips": 0.1}
    lines = [
        {"kind": "train", "step": 1, "loss": 0.5, "lr": 1e-3, "losses": parts},
        {"kind": "train", "step": 2, "loss": 0.3, "lr": 1e-3, "losses": parts},
        {"kind": "validation", "step": 2, "psnr": 31.5},
    ]
    write_lines(tmp_path / "metrics.jsonl", lines)
    curves = training_curves(read_run_logs(tmp_path), METRICS)
    assert list(curves["train"]) == ["loss", "loss: charbonnier", "loss: lpips", "learning rate"]
    assert curves["train"]["loss"]["values"] == [0.5, 0.3]
    assert curves["validation"] == {"PSNR, dB": {"steps": [2], "values": [31.5], "width": 1}}
    # A single loss is not shown twice.
    write_lines(tmp_path / "metrics.jsonl", [lines[0] | {"losses": {"charbonnier": 0.5}}])
    assert list(training_curves(read_run_logs(tmp_path), METRICS)["train"])[:2] == [
        "loss", "learning rate",
    ]  # fmt: skip


def test_times_and_findings_of_a_run(publish):
    folder = publish("slow")
    measured = performance(analyze_run(folder))
    assert measured["step_ms"] == pytest.approx(1000)
    assert measured["data_share"] == pytest.approx(0.3)
    assert measured["gpu_peak_mb"] is None
    (finding,) = (entry for entry in measured["findings"] if entry["symptom"] == "waiting for data")
    assert finding["severity"] == "warning"
    assert all(line.partition(": ")[1] for line in finding["keys"])


def test_times_that_were_not_logged_are_null(publish):
    folder = publish("slow")
    (folder / "timing.jsonl").write_text("")
    measured = performance(analyze_run(folder))
    assert measured["step_ms"] is None
    assert measured["data_share"] is None
    assert measured["process_mb"] == 1000
