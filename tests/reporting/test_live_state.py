"""The state of a run while it trains, recomputed from a log made by hand."""

from __future__ import annotations

import math

import pytest

from tests.reporting.live_runs import append_step, append_text, make_live_run, note_status
from vrtspike.reporting.live_state import LiveRun
from vrtspike.system.errors import RunError


def test_the_values_of_a_running_training(tmp_path):
    folder = make_live_run(tmp_path / "run")
    snapshot = LiveRun(folder).read(now=25.0)
    assert (snapshot.name, snapshot.status, snapshot.has_ended) == ("demo", "running", False)
    assert (snapshot.step, snapshot.total_steps) == (10, 100)
    # A single term equals the loss.
    assert snapshot.losses == {"loss": 0.1}
    assert snapshot.learning_rate == 1e-3
    assert snapshot.samples_per_second == 2.0
    # The slow first step is left out.
    assert snapshot.speed.step_ms == pytest.approx(1000)
    assert snapshot.speed.step_parts == pytest.approx(
        {"data": 0.3, "forward": 0.22, "backward": 0.4, "other": 0.08}
    )
    # 90 steps of a second; the last record is that of step 10, at second 10.
    assert snapshot.remaining_s == pytest.approx(90)
    assert snapshot.idle_s == pytest.approx(15)
    assert snapshot.validation == {
        "PSNR, dB": "30.00 dB, best 31.50 dB after step 5",
        "SSIM": "0.9000, best 0.9000 after step 10",
    }
    train = snapshot.curves["train"]
    assert train["loss"]["steps"] == list(range(1, 11))
    assert train["loss"]["values"] == pytest.approx([1 / step for step in range(1, 11)], rel=1e-5)
    assert train["learning rate"]["values"] == [1e-3] * 10
    assert train["samples per second"]["values"] == [2.0] * 10
    assert snapshot.curves["validation"]["PSNR, dB"]["steps"] == [5, 10]
    assert snapshot.pictures_step == 10
    assert snapshot.pictures == {"restored": folder / "pictures/step_00000010_restored.png"}


def test_a_run_that_continued_on_more_processes_has_fewer_micro_steps(tmp_path):
    run = LiveRun(make_live_run(tmp_path / "run"))
    note_status(run.folder, "running", processes=3, micro_batches=6)
    assert run.read().speed.data_ms == 150


def test_a_torn_last_line_waits_until_it_is_complete(tmp_path):
    run = LiveRun(make_live_run(tmp_path / "run"))
    run.read()
    append_text(run.folder, '{"kind": "train", "step": 11, "loss": 0.5, ')
    assert run.read().step == 10
    append_text(run.folder, '"lr": 0.25, "time": 11.0}\n')
    snapshot = run.read()
    assert (snapshot.step, snapshot.losses, snapshot.learning_rate) == (11, {"loss": 0.5}, 0.25)


def test_terms_of_the_loss_and_a_loss_that_is_not_finite(tmp_path):
    run = LiveRun(make_live_run(tmp_path / "run"))
    append_step(run.folder, 11, losses={"charbonnier": 0.25, "lpips": None}, loss=None)
    losses = run.read().losses
    assert list(losses) == ["loss", "loss: charbonnier", "loss: lpips"]
    assert losses["loss: charbonnier"] == 0.25
    assert math.isnan(losses["loss"])
    assert math.isnan(losses["loss: lpips"])


def test_the_time_left_counts_the_steps_of_the_last_start(tmp_path):
    run = LiveRun(make_live_run(tmp_path / "run"))
    starts = [{"time": 0.0, "step": 0}, {"time": 1000.0, "step": 10}]
    note_status(run.folder, "running", starts=starts)
    append_step(run.folder, 11, time=1010.0)
    assert run.read().remaining_s is None
    append_step(run.folder, 12, time=1013.0)
    assert run.read().remaining_s == pytest.approx(88 * 3)


def test_a_run_before_its_first_step_and_after_its_end(tmp_path):
    run = LiveRun(make_live_run(tmp_path / "run"))
    (run.folder / "metrics.jsonl").write_text("")
    for path in (run.folder / "pictures").iterdir():
        path.unlink()
    snapshot = run.read()
    assert (snapshot.step, snapshot.losses, snapshot.idle_s) == (0, {}, None)
    assert snapshot.curves == {"train": {}, "validation": {}}
    assert (snapshot.pictures, snapshot.validation) == ({}, {})
    note_status(run.folder, "failed", failure="RunError: diverged")
    snapshot = run.read()
    assert run.has_ended()
    assert snapshot.has_ended
    assert snapshot.failure == "RunError: diverged"
    assert snapshot.remaining_s is None


def test_a_published_run_is_finished_and_timed(publish):
    snapshot = LiveRun(publish("one")).read()
    assert (snapshot.status, snapshot.step, snapshot.total_steps) == ("finished", 5, None)
    assert snapshot.speed.step_ms == pytest.approx(1000)


def test_a_folder_without_run_and_a_run_without_log_are_refused(tmp_path):
    with pytest.raises(RunError, match=r"settings\.json: no such file; expected the folder of a"):
        LiveRun(tmp_path)
    folder = make_live_run(tmp_path / "run")
    run = LiveRun(folder)
    (folder / "run.json").unlink()
    with pytest.raises(RunError, match=r"its run\.json has gone"):
        run.read()
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(RunError, match=r"no metrics\.jsonl"):
        LiveRun(folder)
