from __future__ import annotations

from xml.etree import ElementTree

import pandas as pd
import pytest

from vrtspike.analysis.plots import plot_lines, plot_share_of_step, plot_time_per_section
from vrtspike.analysis.sections import summarize_sections


@pytest.fixture(scope="module")
def sections() -> pd.DataFrame:
    rows = [(step, name, ms * step) for step in (1, 2, 3) for name, ms in
            {"step": 10.0, "step/data": 2.0, "step/forward": 5.0}.items()]  # fmt: skip
    return summarize_sections(pd.DataFrame(rows, columns=["step", "section", "ms"]))


def words(path) -> str:
    return " ".join(ElementTree.parse(path).getroot().itertext())


def test_time_per_section_names_each_section(tmp_path, sections):
    plot_time_per_section(tmp_path / "time.svg", sections)
    text = words(tmp_path / "time.svg")
    assert "forward" in text
    assert "12.5 ms, 50%" in text
    assert "milliseconds per step" in text


def test_share_of_step_names_parts_and_rest(tmp_path, sections):
    plot_share_of_step(tmp_path / "share.svg", sections)
    text = words(tmp_path / "share.svg")
    assert "data 20.0%" in text
    assert "other 30.0%" in text


def test_curves_in_panels_with_gaps(tmp_path):
    x = pd.Series([1, 2, 3])
    panels = {
        "loss": {"demo": (x, pd.Series([1.0, float("nan"), 0.1]))},
        "PSNR, dB": {"a": (x, pd.Series([20.0, 21.0, 22.0])), "b": (x, x * 1.0)},
        "nothing": {"empty": (x, pd.Series([float("nan")] * 3))},
    }
    plot_lines(tmp_path / "l.svg", panels, logarithmic=frozenset({"loss"}), missing="no metrics")
    text = words(tmp_path / "l.svg")
    assert "PSNR, dB" in text
    assert "optimiser step" in text
    assert "nothing" not in text


def test_equal_data_give_equal_bytes(tmp_path, sections):
    for name in ("a.svg", "b.svg"):
        plot_time_per_section(tmp_path / name, sections)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_without_data_the_picture_says_why(tmp_path):
    empty = summarize_sections(pd.DataFrame(columns=["step", "section", "ms"]))
    plot_time_per_section(tmp_path / "time.svg", empty)
    plot_share_of_step(tmp_path / "share.svg", empty)
    plot_lines(tmp_path / "lines.svg", {}, missing="no validation in this run")
    assert "LOG.ENABLE_TIMING_LOG" in words(tmp_path / "time.svg")
    assert "no step was timed" in words(tmp_path / "share.svg")
    assert "no validation in this run" in words(tmp_path / "lines.svg")
