"""Timed sections: nesting, recomputation, totals, reports and CUDA."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.helpers.clock import Clock
from vrtspike.io.records import read_records
from vrtspike.monitoring.display import Display
from vrtspike.monitoring.timing import Stopwatch, TimingLogger, section


def logger(folder: Path | None, **options: Any) -> TimingLogger:
    return TimingLogger(folder, "cpu", **options)


@contextmanager
def one_step(folder: Path) -> Iterator[TimingLogger]:
    """The body is a step, the only one that is timed."""
    timing = logger(folder)
    with timing.activate():
        yield timing
    timing.step(1)
    timing.close()


def records(folder: Path) -> list[dict]:
    return [record for path in folder.glob("timing_*.jsonl") for record in read_records(path)]


def text_of(folder: Path) -> str:
    (path,) = folder.glob("timing_*.log")
    return path.read_text()


def test_sections_nest_and_parents_contain_their_children(tmp_path, clock):
    with section("lost"):  # no logger is active
        pass
    with one_step(tmp_path), section("step"):
        with section("forward"):
            for _ in range(2):
                with section("vrt/stage1"):
                    clock.pass_by(0.002)
        with section("backward") as switch:
            clock.pass_by(0.003)
            switch("sync")
            clock.pass_by(0.001)
        with logger(tmp_path / "off", enabled=False).activate(), section("lost"):
            pass
    assert not (tmp_path / "off").exists()
    ms = records(tmp_path)[0]["ms"]
    assert ms == {
        "step": 8,
        "step/forward": 4,
        "step/forward/vrt": 4,
        "step/forward/vrt/stage1": 4,
        "step/backward": 3,
        "step/sync": 1,
    }


def test_recomputation_is_not_counted_as_forward(tmp_path):
    weight = torch.ones(3, requires_grad=True)

    def block(x: torch.Tensor) -> torch.Tensor:
        with section("stage"):
            return (x * weight).exp()

    with one_step(tmp_path), section("step"):
        with section("forward"):
            x = checkpoint(block, torch.ones(3), use_reentrant=False)
            loss = checkpoint(block, x, use_reentrant=False).sum()
        with section("backward"):
            loss.backward()
        with section("optimizer"):
            pass
    assert set(records(tmp_path)[0]["ms"]) == {
        "step", "step/forward", "step/forward/stage", "step/backward",
        "step/backward/recomputation", "step/backward/recomputation/stage", "step/optimizer",
    }  # fmt: skip


def test_the_text_has_the_layout_of_the_guide_and_is_written_at_the_interval(tmp_path):
    timing = logger(tmp_path, file_interval=2)
    timing.log("forward", 280.0)
    timing.log("vrt", 150.0)
    timing.log("vrt/stage1", 25.0)
    for _ in range(2):  # they add up
        timing.log("attention/ffn", 10.0)
    timing.step(1)
    assert text_of(tmp_path) == ""
    timing.log("forward", 380.0)
    timing.step(2)
    assert [r["step"] for r in records(tmp_path)] == [1, 2]
    timing.log("vrt", 250.0)
    timing.step(3)
    assert len(records(tmp_path)) == 2
    timing.close()
    lines = text_of(tmp_path).splitlines()
    assert lines[0] == lines[2] == "=" * 80
    assert lines[1] == "Step 1"
    assert lines[3] == f"{'forward':<40}:   280.00ms ( 62.2%) [avg:   280.00ms]"
    assert lines[4] == f"{'vrt':<40}:   150.00ms ( 33.3%) [avg:   150.00ms]"
    assert lines[5] == f"{'  - stage1':<40}:    25.00ms [avg:    25.00ms]"
    assert lines[6].startswith("attention ")
    assert re.match(r"  - ffn +:    20.00ms \[avg:    20.00ms\]$", lines[7])
    assert re.match(r"Total-+:   450.00ms$", lines[8])
    assert f"{'forward':<40}:   380.00ms (100.0%) [avg:   330.00ms]" in lines
    # Of the two steps in which it ran.
    assert f"{'vrt':<40}:   250.00ms (100.0%) [avg:   200.00ms]" in lines


def test_total_counts_nothing_twice_and_names_what_is_unexplained(tmp_path):
    times = {"step": 100.0, "step/forward": 60.0, "step/forward/stage1": 50.0, "validation": 20.0}
    with one_step(tmp_path) as timing:
        for name, ms in times.items():
            timing.log(name, ms)
    lines = [re.sub(r" +", " ", line) for line in text_of(tmp_path).splitlines()[3:]]
    assert lines[:4] == [
        "forward : 60.00ms ( 50.0%) [avg: 60.00ms]",
        " - stage1 : 50.00ms [avg: 50.00ms]",
        "other : 40.00ms ( 33.3%)",
        "validation : 20.00ms ( 16.7%) [avg: 20.00ms]",
    ]
    assert re.match(r"Total-+: 120.00ms$", lines[4])


def test_summary_has_percentiles_throughput_and_data_share(tmp_path):
    screen = io.StringIO()
    timing = logger(tmp_path, console=Display(screen), console_interval=1000)
    for number in range(1, 101):
        timing.log("step", float(number))
        timing.log("step/data", 1.0)
        timing.step(number, samples=2, frames=10)
    timing.print_summary()
    summary = timing.summary()
    row = summary["sections"]["step"]
    assert (row["mean"], row["min"], row["max"]) == (50.5, 1.0, 100.0)
    assert row["p50"] == pytest.approx(50.5)
    assert row["p95"] == pytest.approx(95.05)
    assert summary["samples_per_second"] == pytest.approx(200 / 5.05, rel=1e-3)
    assert summary["frames_per_second"] == pytest.approx(1000 / 5.05, rel=1e-3)
    assert summary["data_share"] == pytest.approx(100 / 5050, rel=1e-3)
    timing.close()
    assert records(tmp_path)[-1] == {"kind": "summary", **summary}
    for text in (screen.getvalue(), text_of(tmp_path)):
        assert "Timing summary, 100 steps with the first (milliseconds)" in text
        assert re.search(r"step/data +100 +1.00 +1.00 +1.00 +1.00 +1.00", text)
        assert "39.604 samples/s, 198.020 frames/s" in text
        assert "1.98 % of the step waited for data" in text


def test_the_console_is_shown_the_slowest_entries_at_the_interval(monkeypatch):
    shown: list[tuple[list[str], str]] = []
    display = Display()
    monkeypatch.setattr(display, "draw", lambda block, line: shown.append((block, line)))
    timing = logger(None, console=display, console_interval=2)
    for number in range(41, 46):
        for name, ms in zip("abcdef", (280.0, 150.0, 80.0, 60.0, 49.0, 1.0), strict=True):
            timing.log(name, ms)
        timing.step(number)
    timing.close()
    (block, line), (later, _) = shown
    assert line.startswith("timing step 42: total 620.0ms | a 280.0ms 45% | b 150.0ms 24% | ")
    assert "Timing Profile (Step 44)" in later[0]
    title, *rows, total = block
    assert "Timing Profile (Step 42)" in title
    assert [len(re.findall("[█░]", row)) for row in rows] == [30] * 5
    assert rows[0].count("█") == int(30 * 280 / 620)
    assert "280.0ms 45.2%" in rows[0]
    assert "Total:    620.0ms" in total


class LateEvent:
    """Events are numbered; a device has reached those below ``reached``."""

    recorded = reached = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        LateEvent.recorded += 1
        self.number = LateEvent.recorded

    def query(self) -> bool:
        return self.number <= LateEvent.reached

    def synchronize(self) -> None:
        LateEvent.reached = max(LateEvent.reached, self.number)

    def elapsed_time(self, end: LateEvent) -> float:
        return float(end.number - self.number)


def test_steps_are_written_when_the_device_has_finished_them(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", LateEvent)
    timing = TimingLogger(tmp_path, "cuda", file_interval=1)
    written = []
    with timing.activate():
        for number, reached in enumerate((0, 1, 4), start=1):  # each step has two events
            with section("step"):
                pass
            LateEvent.reached = reached
            timing.step(number)
            written.append(len(records(tmp_path)))
    assert written == [0, 0, 2]
    timing.close()
    assert [(r["step"], r["ms"]) for r in records(tmp_path)] == [
        (number, {"step": 1.0}) for number in (1, 2, 3)
    ]


@pytest.mark.gpu
def test_cuda_sections_measure_the_device(tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    matrix = torch.randn(4096, 4096, device="cuda")
    matrix @ matrix  # the first product loads the library
    timing = TimingLogger(tmp_path, "cuda")
    with timing.activate(), section("step"):
        with section("one"):
            matrix @ matrix
        with section("ten"):
            for _ in range(10):
                matrix @ matrix
    timing.step(1)
    timing.close()
    ms = records(tmp_path)[0]["ms"]
    assert ms["step/ten"] > 4 * ms["step/one"]
    assert ms["step"] >= ms["step/ten"]


@pytest.mark.parametrize(
    ("laps", "seconds"),
    [([], 0.0), ([8.0], 8.0), ([8.0, 2.0], 4.0), ([8.0, 2.0, 4.0, 3.0], 12.0)],
)
def test_the_first_of_several_laps_counts_as_the_mean_of_the_others(clock: Clock, laps, seconds):
    watch = Stopwatch(torch.device("cpu"))
    for lap in laps:
        clock.pass_by(50.0)
        with watch.lap():
            clock.pass_by(lap)
    assert watch.seconds == seconds


@pytest.mark.gpu
def test_a_lap_ends_when_the_device_has_finished():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    matrix = torch.randn(8192, 8192, device="cuda")
    ends = torch.cuda.Event()
    with Stopwatch(torch.device("cuda")).lap():
        for _ in range(20):
            matrix @ matrix
        ends.record()
        assert not ends.query()
    assert ends.query()
