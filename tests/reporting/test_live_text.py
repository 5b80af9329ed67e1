"""The values of a running training as lines of text."""

from __future__ import annotations

from tests.reporting.live_runs import append_step, make_live_run, note_status
from vrtspike.reporting.live_state import LiveRun
from vrtspike.reporting.live_text import sparkline, text_lines


def test_the_lines_of_a_running_training(tmp_path):
    run = LiveRun(make_live_run(tmp_path / "run"))
    picture = run.folder / "pictures/step_00000010_restored.png"
    assert text_lines(run.read(now=25.0)) == [
        "demo: running, step 10 of 100 (10%), run 0123456789ab",
        "loss                0.1  █▄▂▂▁▁▁▁▁▁",
        "learning rate       0.001  ▁▁▁▁▁▁▁▁▁▁",
        "PSNR, dB            30.00 dB, best 31.50 dB after step 5  █▁",
        "SSIM                0.9000, best 0.9000 after step 10  ▁█",
        "samples per second  2  ▁▁▁▁▁▁▁▁▁▁",
        "time of a step      1000 ms (data 30%, forward 22%, backward 40%, other 8%)",
        "time left           1:30",
        "last record         15 s ago",
        f"pictures            after step 10: {picture}",
    ]


def test_the_end_of_a_training_is_said(tmp_path):
    run = LiveRun(make_live_run(tmp_path / "run"))
    note_status(run.folder, "failed", failure="RunError: diverged")
    append_step(run.folder, 11)
    lines = text_lines(run.read())
    assert lines[0].startswith("demo: failed, step 11 of 100 (11%)")
    assert lines[0].endswith("RunError: diverged")
    titles = [line.split("  ")[0] for line in lines]
    assert "time left" not in titles
    assert "last record" not in titles
    (run.folder / "metrics.jsonl").write_text("")
    assert text_lines(run.read())[1] == "no training step was logged"


def test_a_long_curve_is_drawn_by_means():
    assert sparkline([]) == ""
    assert sparkline([None]) == ""
    assert sparkline([1.0, 3.0, 2.0, 2.0, 9.0, 9.0], cells=3) == "▁▁█"
    assert len(sparkline([float(value) for value in range(1000)])) <= 32
