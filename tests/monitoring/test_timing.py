from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from vrtspike.monitoring.display import Display
from vrtspike.monitoring.records import read_records
from vrtspike.monitoring.timing import Clock, TimingLogger, section


def quiet(tmp_path: Path, **options: object) -> TimingLogger:
    return TimingLogger(tmp_path, "cpu", console=False, **options)


@contextmanager
def one_step(folder: Path) -> Iterator[TimingLogger]:
    """The body is a step, the only one that is timed."""
    timing = quiet(folder)
    with timing.activate():
        yield timing
    timing.step()
    timing.close()


class Shown(Display):
    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[list[str]] = []

    def draw(self, block: list[str], line: str) -> None:
        self.blocks.append(block)


def records(folder: Path) -> list[dict]:
    (path,) = folder.glob("timing_*.jsonl")
    return read_records(path)


def test_sections_nest_and_parents_contain_their_children(tmp_path):
    timing = quiet(tmp_path)
    with timing.activate():
        for number in (1, 2):
            with section("step"):
                with section("forward"):
                    for _ in range(2):
                        with section("vrt/stage1"):
                            time.sleep(0.002)
                with section("optimizer"):
                    time.sleep(0.001)
            timing.step(number)
    timing.close()
    first, second = records(tmp_path)
    assert (first["step"], second["step"]) == (1, 2)
    ms = first["ms"]
    assert set(ms) == {
        "step",
        "step/forward",
        "step/forward/vrt",
        "step/forward/vrt/stage1",
        "step/optimizer",
    }
    assert ms["step/forward/vrt"] == ms["step/forward/vrt/stage1"] >= 4
    assert ms["step"] >= ms["step/forward"] + ms["step/optimizer"]


def test_without_an_active_logger_nothing_is_recorded(tmp_path):
    timing = quiet(tmp_path)
    with section("lost"):
        pass
    with timing.activate(), section("kept"):
        pass
    with timing.activate(), quiet(tmp_path / "off", enabled=False).activate(), section("lost"):
        pass
    timing.step()
    timing.close()
    assert not (tmp_path / "off").exists()
    assert set(records(tmp_path)[0]["ms"]) == {"kept"}


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


def test_a_section_can_go_on_as_its_sibling(tmp_path):
    with one_step(tmp_path), section("step"), section("backward") as running:
        time.sleep(0.002)
        running.switch("sync")
        time.sleep(0.001)
    ms = records(tmp_path)[0]["ms"]
    assert ms["step/backward"] >= 2
    assert ms["step/sync"] >= 1
    assert ms["step"] >= ms["step/backward"] + ms["step/sync"]


def test_text_file_has_the_layout_of_the_guide(tmp_path):
    timing = quiet(tmp_path)
    timing.log("forward", 280.0)
    timing.log("vrt", 150.0)
    timing.log("vrt/stage1", 25.0)
    for _ in range(2):  # they add up
        timing.log("attention/ffn", 10.0)
    timing.step(1)
    timing.log("forward", 380.0)
    timing.step(2)
    timing.log("vrt", 250.0)
    timing.step(3)
    timing.close()
    (path,) = tmp_path.glob("timing_*.log")
    lines = path.read_text().splitlines()
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
    text = next(tmp_path.glob("timing_*.log")).read_text()
    assert re.search(r"^Total-+:   120.00ms$", text, re.MULTILINE)
    assert re.search(r"^forward +:    60.00ms \( 50.0%\)", text, re.MULTILINE)
    assert re.search(r"^other +:    40.00ms", text, re.MULTILINE)


def test_files_are_written_at_the_interval(tmp_path):
    timing = quiet(tmp_path, file_interval=3)
    (path,) = tmp_path.glob("timing_*.jsonl")
    for number in range(1, 5):
        timing.log("step", 1.0)
        timing.step(number)
        assert len(path.read_text().splitlines()) == (0 if number < 3 else 3)
    timing.close()
    assert len(path.read_text().splitlines()) == 4


def test_summary_has_percentiles_throughput_and_data_share(tmp_path):
    timing = quiet(tmp_path)
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
    assert records(tmp_path)[-1]["kind"] == "summary"


def test_plain_console_prints_one_line_per_interval(tmp_path, capsys):
    timing = TimingLogger(tmp_path, "cpu", file=False, console_interval=2)
    for number in range(1, 6):
        timing.log("step", 10.0)
        timing.log("step/forward", 7.5)
        timing.step(number)
    timing.close()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "[train] timing step 2",
        "[train] timing step 4",
    ]
    assert "forward 7.5ms 75%" in lines[0]
    assert "\x1b" not in lines[0]


def test_the_console_is_shown_the_slowest_entries(tmp_path):
    shown = Shown()
    timing = TimingLogger(tmp_path, "cpu", console=shown, file=False, console_interval=1)
    for number in (41, 42):
        for name, ms in zip("abcdef", (280.0, 150.0, 80.0, 60.0, 49.0, 1.0), strict=True):
            timing.log(name, ms)
        timing.step(number)
    timing.close()
    assert "Timing Profile (Step 41)" in shown.blocks[0][0]
    title, *rows, total = shown.blocks[1]
    assert "Timing Profile (Step 42)" in title
    assert len(rows) == 5
    assert [len(re.findall("[█░]", row)) for row in rows] == [30] * 5
    assert rows[0].count("█") == int(30 * 280 / 620)
    assert "280.0ms 45.2%" in rows[0]
    assert "Total:    620.0ms" in total


class LateClock(Clock):
    """Numbers its marks; a device has reached those below ``reached``."""

    def __init__(self) -> None:
        self.marks, self.reached = 0, 0

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    def milliseconds(self, start: int, end: int) -> float:
        return float(end - start)

    def is_complete(self, mark: int) -> bool:
        return mark <= self.reached


def test_steps_are_written_once_the_device_has_done_them(tmp_path, monkeypatch):
    clock = LateClock()
    monkeypatch.setattr("vrtspike.monitoring.timing.clock_for", lambda device: clock)
    timing = quiet(tmp_path, file_interval=1)
    written = []
    with timing.activate():
        for reached in (0, 1, 4):  # each step has two marks
            with section("step"):
                pass
            clock.reached = reached
            timing.step()
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
    timing = TimingLogger(tmp_path, "cuda", console=False)
    with timing.activate(), section("step"):
        with section("one"):
            matrix @ matrix
        with section("ten"):
            for _ in range(10):
                matrix @ matrix
    timing.step()
    timing.close()
    ms = records(tmp_path)[0]["ms"]
    assert ms["step/ten"] > 4 * ms["step/one"]
    assert ms["step"] >= ms["step/ten"]
