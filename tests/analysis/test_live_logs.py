"""Logs that grow while they are read, against the logs that are read at once."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from tests.published_runs import metric_lines, timing_lines, write_lines
from vrtspike.analysis import run_logs
from vrtspike.analysis.run_logs import LiveLogs, read_run_logs
from vrtspike.io.records import truncate_records
from vrtspike.system.errors import RunError


def append(path, lines):
    with path.open("a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


def require_equal(live, folder):
    """Compare the curves with those of the whole files."""
    whole = read_run_logs(folder)
    for name in ("train", "validation", "timing", "steps"):
        tables = [getattr(logs, name) for logs in (live, whole)]
        pd.testing.assert_frame_equal(*tables, check_dtype=False, check_categorical=False)


def test_growing_logs_equal_the_whole_files(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    metrics.touch()
    live = LiveLogs(tmp_path)
    require_equal(live.read(), tmp_path)
    lines = metric_lines(6, 30.0)
    # A loss that is not finite is null.
    lines[1]["loss"] = None
    for part in (lines[:1], lines[1:2], lines[2:], []):
        append(metrics, part)
        append(tmp_path / "timing.jsonl", [])
        require_equal(live.read(), tmp_path)
    write_lines(tmp_path / "timing.jsonl", timing_lines(4))
    logs = live.read()
    require_equal(logs, tmp_path)
    assert logs.train["step"].tolist() == [1, 2, 3, 4, 5, 6]
    assert logs.steps["step"].tolist() == [1, 2, 3, 4]


def test_a_resumed_run_replaces_what_it_repeats(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    write_lines(metrics, metric_lines(6, 30.0))
    live = LiveLogs(tmp_path)
    live.read()
    truncate_records(metrics, 3)
    append(metrics, [{**metric_lines(4, 0.0)[3], "loss": 7.0}])
    logs = live.read()
    assert logs.train["step"].tolist() == [1, 2, 3, 4]
    assert logs.train["loss"].iloc[-1] == 7.0
    assert logs.validation.empty
    # A step that is logged again without a replaced file counts once, too.
    append(metrics, [{**metric_lines(4, 0.0)[3], "loss": 8.0}])
    assert live.read().train["loss"].tolist()[-2:] == [1 / 3, 8.0]


def test_timings_are_those_of_the_last_start_and_of_its_end(tmp_path, monkeypatch):
    write_lines(tmp_path / "metrics.jsonl", [])
    write_lines(tmp_path / "logs/timing_1.jsonl", timing_lines(9)[:9])
    write_lines(tmp_path / "logs/timing_2.jsonl", timing_lines(20)[:20])
    size = sum(len(json.dumps(line)) + 1 for line in timing_lines(20)[17:20])
    monkeypatch.setattr(run_logs, "TIMING_BYTES", size)
    assert LiveLogs(tmp_path).read().steps["step"].tolist() == [18, 19, 20]


def test_a_folder_without_log_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"no metrics\.jsonl, which every training run writes"):
        LiveLogs(tmp_path)
