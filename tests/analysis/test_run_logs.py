"""Logs as data frames: published and unpublished, restarted, damaged and truncated ones."""

from __future__ import annotations

import json
import time
import tracemalloc

import pandas as pd
import pytest

from tests.helpers.published_runs import metric_lines, timing_lines, write_lines
from vrtspike.analysis import run_logs
from vrtspike.analysis.run_logs import read_live_logs, read_run_logs
from vrtspike.monitoring.timing import TimingLogger, section
from vrtspike.system.errors import RunError


def train(step: int, loss: float | None) -> dict:
    return {"kind": "train", "step": step, "epoch": 0, "loss": loss, "time": 1.0}


def test_records_of_the_timing_logger_are_read(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", [train(1, 0.5)])
    logger = TimingLogger(tmp_path / "logs", "cpu", file_interval=1)
    with logger.activate() as timing:
        for number in (1, 2, 3):
            with section("step"), section("forward"):
                timing.log("extra", 2.5)
            timing.step(number, samples=2, frames=10)
    logger.print_summary()
    logger.close()
    logs = read_run_logs(tmp_path)
    assert set(logs.timing["section"]) == {"step", "step/forward", "step/forward/extra"}
    assert logs.timing.loc[logs.timing["section"].str.endswith("extra"), "ms"].tolist() == [2.5] * 3
    assert logs.steps[["step", "samples", "frames"]].values.tolist() == [
        [n, 2, 10] for n in (1, 2, 3)
    ]
    # There is no validation yet, and no memory was logged.
    assert logs.memory.empty
    assert logs.validation.empty


def test_a_published_file_is_preferred_to_the_folder_of_logs(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", [train(1, 0.5)])
    step = {"kind": "step", "step": 1, "time": 0.0, "samples": 1, "frames": 1}
    write_lines(tmp_path / "logs" / "timing_a.jsonl", [step | {"ms": {"step": 1.0}}])
    write_lines(tmp_path / "timing.jsonl", [step | {"ms": {"step": 2.0}}])
    assert read_run_logs(tmp_path).timing["ms"].tolist() == [2.0]


def test_the_timings_of_a_long_run_are_not_held_as_objects(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", [train(1, 0.5)])
    steps, names = 300, [f"step/forward/vrt/stage{number}/attention" for number in range(200)]
    with (tmp_path / "timing.jsonl").open("w") as stream:
        for step in range(1, steps + 1):
            ms = dict.fromkeys(names, step + 0.25)
            record = {"kind": "step", "step": step, "time": 0.0, "samples": 1, "frames": 1}
            stream.write(json.dumps(record | {"ms": ms}) + "\n")
    tracemalloc.start()
    logs = read_run_logs(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(logs.timing) == steps * len(names)
    # A Python float alone takes 24 bytes, its entry in a dictionary 24 or more.
    assert peak / len(logs.timing) < 100


def test_a_damaged_line_is_refused_a_cut_one_is_not(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with pytest.raises(RunError, match=r"no metrics\.jsonl"):
        read_run_logs(tmp_path)
    path.write_text(json.dumps(train(1, 0.5)) + '\n{"kind": "tra')
    logs = read_run_logs(tmp_path)
    assert (len(logs.train), len(logs.timing), len(logs.steps)) == (1, 0, 0)
    path.write_text('{"kind": \n' + json.dumps(train(1, 0.5)) + "\n")
    with pytest.raises(RunError, match="line 1"):
        read_run_logs(tmp_path)


def test_memory_is_read_with_dotted_names_and_the_last_peak(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", [train(2, 0.25), train(1, 0.5)])
    line = {"kind": "memory", "time": 1.0, "process_mb": 9, "gpu": {"peak_mb": 5}, "cache": None}
    peak = {"kind": "gpu_categories", "activations_mb": 2.0}
    lines = [
        line | {"step": 4},
        peak | {"peak_mb": 3.0},
        line | {"step": 2},
        line | {"step": 4, "gpu": {"peak_mb": 7}},
        peak | {"activations_mb": 6.0, "peak_mb": 7.0},
        # A run that went on on a CPU.
        peak | {"activations_mb": None, "peak_mb": None},
    ]
    write_lines(tmp_path / "logs" / "memory.jsonl", lines)
    logs = read_run_logs(tmp_path)
    assert logs.memory[["step", "gpu.peak_mb"]].values.tolist() == [[2, 5], [4, 7]]
    assert logs.gpu_activations_mb == 6.0
    # In order of the steps, whatever the order of the lines.
    assert logs.train[["step", "loss"]].values.tolist() == [[1, 0.5], [2, 0.25]]


def test_timings_of_several_starts_are_in_order_and_missing_values_stay_missing(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", [train(1, 0.5)])

    def step(number: int, **values: float | None) -> dict:
        ms = {"step": values.pop("ms")}
        return {"kind": "step", "step": number, "ms": ms, **values}

    first = [step(1, ms=1.0, samples=2, frames=6, time=10.0), step(3, ms=3.0, samples=2)]
    later = [step(3, ms=None, samples=4, frames=8), step(2, ms=2.0, samples=5)]
    write_lines(tmp_path / "logs" / "timing_20260102-000000.jsonl", later)
    write_lines(tmp_path / "logs" / "timing_20260101-000000.jsonl", first)
    logs = read_run_logs(tmp_path)
    assert logs.steps["step"].tolist() == [1, 2, 3]
    assert logs.steps["samples"].tolist() == [2, 5, 4]
    assert logs.steps["frames"].fillna(-1).tolist() == [6, -1, 8]
    assert logs.steps["time"].fillna(-1).tolist() == [10, -1, -1]
    assert logs.timing["ms"].tolist() == [1.0, 2.0]


def test_the_later_start_counts_when_the_clock_goes_back(tmp_path, monkeypatch):
    """As at the end of summer time, but by a day: the second start is in another time zone."""
    write_lines(tmp_path / "metrics.jsonl", [train(1, 0.5)])
    for zone, samples in (("Etc/GMT-14", 3), ("Etc/GMT+12", 5)):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        logger = TimingLogger(tmp_path / "logs", "cpu", file_interval=1)
        with logger.activate() as timing:
            with section("step"):
                pass
            timing.step(1, samples=samples, frames=1)
        logger.close()
    monkeypatch.undo()
    time.tzset()
    assert read_run_logs(tmp_path).steps["samples"].tolist() == [5]


def test_logs_of_a_training_are_the_first_lines_of_the_whole_ones(tmp_path):
    lines = metric_lines(6, 30.0)
    # A loss that is not finite is null.
    lines[1]["loss"] = None
    for count in (0, 1, len(lines)):
        write_lines(tmp_path / "metrics.jsonl", lines[:count])
        write_lines(tmp_path / "timing.jsonl", timing_lines(count))
        live = read_live_logs(tmp_path)
        whole = read_run_logs(tmp_path)
        for name in ("train", "validation", "timing", "steps"):
            pd.testing.assert_frame_equal(getattr(live, name), getattr(whole, name))
    assert live.train["step"].tolist() == [1, 2, 3, 4, 5, 6]
    assert live.steps["step"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert live.validation["step"].tolist() == [6]


def test_timings_of_a_training_are_those_of_the_last_start_and_of_its_end(tmp_path, monkeypatch):
    write_lines(tmp_path / "metrics.jsonl", [])
    write_lines(tmp_path / "logs/timing_1.jsonl", timing_lines(9)[:9])
    write_lines(tmp_path / "logs/timing_2.jsonl", timing_lines(20)[:20])
    size = sum(len(json.dumps(line)) + 1 for line in timing_lines(20)[17:20])
    monkeypatch.setattr(run_logs, "TIMING_BYTES", size)
    assert read_live_logs(tmp_path).steps["step"].tolist() == [18, 19, 20]


def test_a_training_without_log_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"no metrics\.jsonl, which every training run writes"):
        read_live_logs(tmp_path)
