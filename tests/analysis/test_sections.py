from __future__ import annotations

import pandas as pd
import pytest

from vrtspike.analysis.sections import step_parts, summarize_sections, throughput


def timing(*steps: dict[str, float]) -> pd.DataFrame:
    rows = [(n, name, ms) for n, step in enumerate(steps, 1) for name, ms in step.items()]
    return pd.DataFrame(rows, columns=["step", "section", "ms"])


def test_statistics_leave_the_warm_up_out():
    slow = {"step": 5000.0, "step/data": 4000.0}
    table = summarize_sections(
        timing(slow, {"step": 100.0, "step/data": 10.0}, {"step": 300.0, "step/data": 30.0})
    ).set_index("section")
    assert table.at["step", "mean"] == 200
    assert table.at["step/data", "max"] == 30
    assert table.at["step/data", "share"] == pytest.approx(0.1)
    assert table.at["step/data", "depth"] == 1
    assert table["count"].tolist() == [2, 2]


def test_a_single_step_counts():
    assert summarize_sections(timing({"step": 7.0}))["p50"].tolist() == [7.0]


def test_parents_stand_before_children_although_they_end_later():
    table = summarize_sections(
        timing({"step/data": 1.0, "step/forward/vrt/stage1": 1.0, "step/forward/vrt/stage2": 1.0,
                "step/forward/vrt": 2.0, "step/forward": 2.0, "step/loss": 1.0, "step": 5.0,
                "checkpoint": 2.0})
    )  # fmt: skip
    assert table["section"].tolist() == [
        "step", "step/data", "step/forward", "step/forward/vrt", "step/forward/vrt/stage1",
        "step/forward/vrt/stage2", "step/loss", "checkpoint",
    ]  # fmt: skip


def test_siblings_stand_in_the_order_of_their_beginning():
    table = summarize_sections(
        timing({"step/b/first": 1.0, "step/a": 1.0, "step/b/last": 1.0, "step/b": 2.0, "step": 4.0})
    )
    assert table["section"].tolist() == [
        "step", "step/b", "step/b/first", "step/b/last", "step/a",
    ]  # fmt: skip


def test_the_parts_of_a_step_add_up():
    table = summarize_sections(
        timing({"step": 10.0, "step/data": 2.0, "step/forward": 5.0, "step/forward/vrt": 5.0})
    )
    assert step_parts(table) == pytest.approx({"data": 0.2, "forward": 0.5, "other": 0.3})
    assert step_parts(summarize_sections(timing({"validation": 3.0}))) == {}
    assert step_parts(summarize_sections(timing())) == {}


def test_throughput_averages_neighbouring_steps():
    steps = pd.DataFrame({"step": [1, 2, 3, 4], "samples": [2, 2, 2, 2], "frames": [6, 6, 6, 6]})
    times = timing({"step": 500.0}, {"step": 1500.0}, {"step": 1000.0}, {"step": 1000.0})
    table = throughput(steps, times, points=2)
    assert table["step"].tolist() == [2, 4]
    assert table["samples_per_second"].tolist() == [2.0, 2.0]
    assert table["frames_per_second"].tolist() == [6.0, 6.0]
    assert throughput(steps, times)["samples_per_second"].tolist()[:2] == [4.0, 4 / 3]
    assert throughput(steps.iloc[:0], times.iloc[:0]).empty
