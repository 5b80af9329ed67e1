"""Times of the sections of an irregular run, computed again with pandas."""

from __future__ import annotations

import pandas as pd
import pytest

from vrtspike.analysis.run_logs import read_run_logs
from vrtspike.analysis.section_times import summarize_sections, throughput


def test_sections_have_statistics_of_steady_steps(section_ms, log_folder):
    logs = read_run_logs(log_folder)
    table = summarize_sections(logs.timing, logs.starts).set_index("section")
    steady = section_ms[1:]
    expected = pd.DataFrame(
        {
            "depth": [name.count("/") for name in section_ms],
            "count": steady.count(), "mean": steady.mean(), "p50": steady.median(),
            "p95": steady.quantile(0.95), "min": steady.min(), "max": steady.max(),
            "share": steady.sum() / steady["step"].sum(),
        }
    )  # fmt: skip
    pd.testing.assert_frame_equal(table.sort_index(), expected.sort_index(), check_dtype=False,
                                  check_names=False)  # fmt: skip
    one = pd.DataFrame({"step": [1], "section": ["step"], "ms": [7.0]})
    assert summarize_sections(one, logs.starts)["p50"].tolist() == [7.0]


def test_throughput_of_each_step(section_ms, log_records, log_folder):
    logs = read_run_logs(log_folder)
    table = throughput(logs.steps, logs.timing)
    counts = pd.DataFrame(log_records["timing"])[["step", "samples", "frames"]]
    assert table["step"].tolist() == counts["step"].tolist()
    for name in ("samples", "frames"):
        expected = 1e3 * counts[name] / section_ms["step"]
        assert table[f"{name}_per_second"].tolist() == pytest.approx(expected.tolist())
    assert throughput(logs.steps.iloc[:0], logs.timing).empty
