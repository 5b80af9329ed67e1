"""The training loop: exact resume, signals, crashes, early stopping and validation."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.training.forecast import Disturbed, Forecaster, ForecastObjective
from tests.training.setup_run import (
    Notes,
    first_micro_batch,
    forecast_settings,
    forecast_trainer,
    last_micro_batch,
    records,
    run,
    train,
)
from vrtspike.io.records import read_records
from vrtspike.launching.signals import StopRequest
from vrtspike.system.errors import RunError
from vrtspike.training import loop
from vrtspike.training.checkpoints import list_checkpoints
from vrtspike.training.progress import Throughput


def final_state(folder: Path) -> dict[str, torch.Tensor]:
    _, path = list_checkpoints(folder / "checkpoints")[0]
    state = torch.load(path, weights_only=True)
    del state["progress"]["epoch_seconds"]  # depends on the clock
    return state


def assert_same(a: Any, b: Any) -> None:
    """Equal to the last bit, whatever the nesting."""
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert a == b


VARIANTS = [
    {"PRECISION": "bf16-mixed", "EMA": 0.9},
    {"PRECISION": "bf16-true"},
    {"PRECISION": "16-mixed", "OPTIM": {"TYPE": "adamw8bit", "LR": 1e-2}},
    {"PRECISION": "32", "GRADIENT_ACCUMULATION_STEPS": 3, "EMA": 0.5},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v.values())))
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_stopped_and_resumed_is_bit_identical(tmp_path, variant):
    # 4096 elements are where adamw8bit begins to use 8 bits.
    settings = forecast_settings(variant)
    train(tmp_path / "whole", settings, model=wide_model)
    accumulation = settings.TRAIN.GRADIENT_ACCUMULATION_STEPS
    objective = Disturbed(last_micro_batch(6, accumulation))
    assert (
        train(tmp_path / "cut", settings, model=wide_model, objective=objective).outcome
        == "interrupted"
    )
    assert list_checkpoints(tmp_path / "cut" / "checkpoints")[0][0] == 6
    assert train(tmp_path / "cut", settings, model=wide_model).outcome == "finished"
    assert_same(final_state(tmp_path / "whole"), final_state(tmp_path / "cut"))
    assert records(tmp_path / "whole") == records(tmp_path / "cut")


def wide_model() -> Forecaster:
    torch.manual_seed(7)
    return Forecaster(width=24)


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGINT"])
def test_other_signals_stop_between_steps(tmp_path, name):
    objective = Disturbed(first_micro_batch(3), getattr(signal, name))
    assert train(tmp_path, forecast_settings(), objective=objective).outcome == "interrupted"
    # The third step is completed.
    assert [r["step"] for r in records(tmp_path) if r["kind"] == "train"] == [1, 2, 3]


def test_crash_continues_from_the_last_checkpoint_without_repeats(tmp_path):
    settings = forecast_settings()
    train(tmp_path / "whole", settings)
    disturbed = Disturbed(first_micro_batch(8), ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        train(tmp_path / "cut", settings, objective=disturbed)
    # Steps 5 to 7 were recorded after the checkpoint of step 4; a line was cut off as well.
    assert records(tmp_path / "cut")[-1]["step"] == 7
    with (tmp_path / "cut" / "metrics.jsonl").open("a") as stream:
        stream.write('{"kind": "tra')
    display = Notes()
    train(tmp_path / "cut", settings, display=display)
    assert display.notes[0] == "resuming after step 4 of 12"
    assert re.fullmatch(
        r"step 12/12 \| eta 0:00 \| epoch 5 \| loss [\d.]+ \| skill -?[\d.]+ "
        r"\| [\d.e+]+ samples/s \| data [\d.]+ ms",
        display.lines[-1],
    )
    assert records(tmp_path / "whole") == records(tmp_path / "cut")
    assert_same(final_state(tmp_path / "whole"), final_state(tmp_path / "cut"))


def test_resumed_with_another_number_of_workers_is_bit_identical(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 8})
    train(tmp_path / "none", settings)
    train(tmp_path / "cut", settings, workers=2, objective=Disturbed(last_micro_batch(4)))
    assert records(tmp_path / "cut")[-1]["step"] == 4
    train(tmp_path / "cut", settings)
    assert_same(final_state(tmp_path / "none"), final_state(tmp_path / "cut"))
    assert records(tmp_path / "none") == records(tmp_path / "cut")


def test_a_crash_after_a_checkpoint_leaves_no_gap_in_the_timings(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 8})
    disturbed = Disturbed(first_micro_batch(6), ZeroDivisionError())
    trainer = forecast_trainer(tmp_path, settings, timing=True, objective=disturbed)
    with pytest.raises(ZeroDivisionError), StopRequest() as stop:
        trainer.run(stop)
    # As a kill would leave it: what was not written by now is lost.
    (path,) = (tmp_path / "logs").glob("timing_*.jsonl")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    trainer.timing.close()
    assert [r["step"] for r in written if r["kind"] == "step"] == [1, 2, 3, 4]
    train(tmp_path, settings, timing=True)
    files = sorted((tmp_path / "logs").glob("timing_*.jsonl"))
    steps = [r["step"] for file in files for r in read_records(file) if r["kind"] == "step"]
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_start_of_workers_is_no_part_of_the_first_step(tmp_path, monkeypatch):
    trainer = forecast_trainer(tmp_path, forecast_settings({"MAX_STEPS": 1}))
    events: list[str] = []
    begin_stream = trainer.parts.training_batches.stream

    def stream(*arguments: Any, **options: Any) -> Any:
        events.append("workers start")
        return begin_stream(*arguments, **options)

    class Measured(Throughput):
        def __init__(self, *arguments: Any) -> None:
            events.append("steps are timed")
            super().__init__(*arguments)

    monkeypatch.setattr(trainer.parts.training_batches, "stream", stream)
    monkeypatch.setattr(loop, "Throughput", Measured)
    run(trainer)
    assert events == ["workers start", "steps are timed"]


def test_without_an_interval_every_epoch_ends_with_a_validation(tmp_path):
    # Five batches make an epoch, two a step: epochs end within steps 3 and 8.
    log = {"VAL_EVERY_STEPS": None, "TENSORBOARD": False}
    train(tmp_path, forecast_settings({"MAX_STEPS": 9}, LOG=log))
    steps = [record["step"] for record in records(tmp_path) if record["kind"] == "validation"]
    assert steps == [3, 5, 8, 9]


class Constant(Disturbed):
    """Never gets any better."""

    def metrics(self, output, batch):
        return [{"psnr": 1.0, "skill": 1.0} for _ in super().metrics(output, batch)]


EARLY_STOPPING = {"MAX_STEPS": 60, "EARLY_STOPPING": {"PATIENCE": 2}}
SAMPLES = 14
"""7 batches make an epoch: the last one is cut short."""


def test_early_stopping_ends_the_run(tmp_path):
    trainer = train(
        tmp_path, forecast_settings(EARLY_STOPPING), objective=Constant(), samples=SAMPLES
    )
    assert trainer.outcome == "finished"
    # The first validation is the best so far; two more without improvement follow.
    assert records(tmp_path)[-1]["step"] == 15


def test_epochs_are_counted_up_to_an_early_stop(tmp_path):
    train(tmp_path, forecast_settings(EARLY_STOPPING), objective=Constant(), samples=SAMPLES)
    epochs = [record for record in records(tmp_path) if record["kind"] == "epoch"]
    counts = [(record["epoch"], record["step"], record["samples"]) for record in epochs]
    assert counts == [(1, 4, 16), (2, 7, 12), (3, 11, 16), (4, 14, 12), (5, 15, 4)]


def test_a_continued_run_stops_early_at_the_same_step(tmp_path):
    settings = forecast_settings(EARLY_STOPPING)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(whole, settings, objective=Constant(), samples=SAMPLES)
    # Stopped before the last validation, which ends the run.
    interrupted = train(cut, settings, objective=Constant(30), samples=SAMPLES)
    assert interrupted.outcome == "interrupted"
    checkpoints = {path: path.read_bytes() for path in (cut / "checkpoints").iterdir()}
    assert train(cut, settings, objective=Constant(), samples=SAMPLES).outcome == "finished"
    assert records(cut) == records(whole)

    # Killed right after that validation: the checkpoints are those from before it.
    for path, contents in checkpoints.items():
        path.write_bytes(contents)
    assert train(cut, settings, objective=Constant(), samples=SAMPLES).outcome == "finished"
    assert records(cut) == records(whole)


def test_early_stopping_needs_an_existing_metric(tmp_path):
    settings = forecast_settings({"EARLY_STOPPING": {"METRIC": "ssim"}})
    with pytest.raises(RunError, match=r"METRIC is ssim, but validation gives skill; .* main"):
        train(tmp_path, settings)


class Scripted(ForecastObjective):
    """Reports an error that falls and rises again, whatever the model does."""

    metric = "error"
    lower_is_better = ("error",)
    errors = (0.5, 0.25, 0.125, 0.375, 0.25, 0.1875)

    def metrics(self, output, batch):
        # A validation has three batches.
        self.count = getattr(self, "count", 0) + 1
        return [{"error": self.errors[(self.count - 1) // 3]} for _ in output]


def test_best_weights_and_early_stopping_follow_a_metric_to_minimise(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 60, "EARLY_STOPPING": {"PATIENCE": 3}})
    trainer = train(tmp_path, settings, objective=Scripted())
    result = [r["error"] for r in records(tmp_path) if r["kind"] == "validation"]
    assert result == list(Scripted.errors)
    assert trainer.counters.best == {"error": 0.125}
    assert trainer.counters.best_step == 15


class ScriptedAndDisturbed(Scripted, Disturbed):
    """A scripted error, and a crash."""


def assert_best_weights_are_those_of(folder: Path, step: int) -> None:
    checkpoint = torch.load(folder / f"checkpoints/step_{step:08d}.pt", weights_only=True)
    assert checkpoint["progress"]["best_step"] == step
    assert_same(load_file(folder / "best.safetensors"), dict(checkpoint["model"]))


def test_a_killed_run_has_the_best_weights_of_its_record(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 13, "EARLY_STOPPING": {"PATIENCE": 9}})
    crash = ScriptedAndDisturbed(first_micro_batch(12), ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, settings, objective=crash)
    # The second validation was the best; its repetition would not be, as the script begins again.
    assert_best_weights_are_those_of(tmp_path, 10)
    # As if it had been killed between the checkpoint and these weights.
    (tmp_path / "best.safetensors").unlink()
    trainer = train(tmp_path, settings, objective=Scripted())
    assert trainer.counters.best_step == 10
    trainer.load_best()
    assert_best_weights_are_those_of(tmp_path, 10)


def test_a_validation_that_is_made_up_for_is_saved_with_its_weights(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 8, "EARLY_STOPPING": {"PATIENCE": 9}})
    train(tmp_path, settings, objective=Disturbed(last_micro_batch(5)))
    crash = ScriptedAndDisturbed(first_micro_batch(1), ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, settings, objective=crash)
    assert_best_weights_are_those_of(tmp_path, 5)


def test_a_validation_after_the_last_checkpoint_is_not_recorded_twice(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 8})
    train(tmp_path / "whole", settings)
    # Stopped before the validation of step 5; killed right after it was made up for.
    train(tmp_path / "cut", settings, objective=Disturbed(last_micro_batch(5)))
    disturbed = Disturbed(first_micro_batch(1), ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        train(tmp_path / "cut", settings, objective=disturbed)
    assert records(tmp_path / "cut")[-1]["kind"] == "validation"
    train(tmp_path / "cut", settings)
    assert records(tmp_path / "whole") == records(tmp_path / "cut")


def test_a_run_never_changes_its_half_precision(tmp_path):
    train(tmp_path, forecast_settings({"MAX_STEPS": 4}))
    with pytest.raises(RunError, match="another half precision"):  # as mixed on an older GPU
        forecast_trainer(tmp_path, forecast_settings({"PRECISION": "16-mixed"}))


def test_a_checkpoint_with_other_counters_is_refused(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 4})
    train(tmp_path, settings)
    state = final_state(tmp_path)
    _, path = list_checkpoints(tmp_path / "checkpoints")[0]
    torch.save({**state, "progress": {**state["progress"], "novel": 1}}, path)
    with pytest.raises(RunError, match=r"checkpoints: progress .*novel.* remove the run's folder"):
        forecast_trainer(tmp_path, settings)


def test_timings_cover_the_step(tmp_path):
    train(tmp_path, forecast_settings({"MAX_STEPS": 5}), timing=True)
    (path,) = (tmp_path / "logs").glob("timing_*.jsonl")
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["samples"], last["frames"]) == (4, 20)
    names = {"data", "forward", "forward/body", "loss", "loss/mse", "backward", "optimizer"}
    assert {f"step/{name}" for name in names} | {"step", "validation", "checkpoint"} <= set(
        last["ms"]
    )
    parts = sum(last["ms"][f"step/{n}"] for n in names if "/" not in n)
    assert parts <= last["ms"]["step"]
