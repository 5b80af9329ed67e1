"""Whole runs whose micro-steps are recorded, against those that are run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.forecast import FlowForecaster, ForecastTask
from tests.training.recorders import CallRecorder
from tests.training.setup_run import forecast_settings, forecast_trainer, records
from tests.training.test_loop import assert_same, final_state
from vrtspike.config.train_schema import TrainSettings
from vrtspike.errors import ConfigError, RunError
from vrtspike.launching.signals import StopRequest
from vrtspike.training.distributed import Ranks
from vrtspike.training.loop import Trainer
from vrtspike.training.micro_steps import (
    LaunchedMicroSteps,
    RecordedMicroSteps,
    Work,
    may_record,
    micro_steps,
)
from vrtspike.training.optimizers import build_optimizer
from vrtspike.training.precision import Precision

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ALONE = Ranks(0, 0, 1, 1, CPU)


def recorded(trainer: Trainer, recorder: CallRecorder) -> RecordedMicroSteps:
    """The micro-steps of a trainer, such that they are recorded on a CPU as well."""
    steps, settings = trainer.micro_steps, trainer.settings
    assert isinstance(steps, LaunchedMicroSteps)
    return RecordedMicroSteps(
        trainer.model,
        steps._work,
        trainer.ranks,
        trainer.optimizer,
        steps._seed,
        recorder,
        lambda step: 0,
        trainer.precision.name,
        insist=settings.TRAIN.CUDA_GRAPH == "on",
    )


def train(folder: Path, settings: Any, recorder: CallRecorder | None, **options: Any) -> Trainer:
    trainer = forecast_trainer(folder, settings, model=FlowForecaster, **options)
    if recorder is not None:
        trainer.micro_steps = recorded(trainer, recorder)
    with StopRequest() as stop:
        assert trainer.run(stop) == "finished"
    trainer.log.close()
    trainer.timing.close()
    return trainer


VARIANTS = {
    "plain": {"PRECISION": "32"},
    "scaled": {"PRECISION": "16-mixed", "AMP_INIT_SCALE": 2.0**20},
    "averaged": {"PRECISION": "bf16-mixed", "EMA": 0.9},
    "thawed": {"FREEZE_FLOW_STEPS": 6},
    "one": {"GRADIENT_ACCUMULATION_STEPS": 1},
}


RECORDINGS = {"plain": 3, "scaled": 3, "averaged": 3, "thawed": 4, "one": 3}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_gives_the_same_to_the_last_bit(tmp_path, name, recwarn):
    settings = forecast_settings(VARIANTS[name])
    train(tmp_path / "run", settings, None)
    recorder = CallRecorder()
    train(tmp_path / "recorded", settings, recorder)
    # Validation after the steps 5, 10 and 12 takes the memory; flow learns after the sixth.
    assert recorder.recordings == RECORDINGS[name]
    # All but the first three, three after flow was set free, and one that overflows in float16.
    expected = {"thawed": 24 - 3 - 3, "one": 12 - 3, "scaled": 24 - 3 - 1}
    assert recorder.replays == expected.get(name, 24 - 3)
    assert_same(final_state(tmp_path / "run"), final_state(tmp_path / "recorded"))
    assert records(tmp_path / "run") == records(tmp_path / "recorded")
    assert not [w for w in recwarn.list if "CUDA_GRAPH" in str(w.message)]


def test_a_smaller_batch_at_the_end_of_an_epoch_is_run(tmp_path):
    settings = forecast_settings({"MAX_STEPS": 20})
    recorder = CallRecorder()
    for name, used in (("run", None), ("recorded", recorder)):
        train(tmp_path / name, settings, used, samples=11, drop_last=False)
    assert recorder.releases >= 2
    assert_same(final_state(tmp_path / "run"), final_state(tmp_path / "recorded"))


class Refusing(CallRecorder):
    def record(self, work):
        raise RuntimeError("not here")


def test_a_device_that_cannot_record_goes_on_as_it_began(tmp_path):
    settings = forecast_settings()
    train(tmp_path / "run", settings, None)
    with pytest.warns(UserWarning, match="RuntimeError: not here"):
        train(tmp_path / "refused", settings, Refusing())
    assert_same(final_state(tmp_path / "run"), final_state(tmp_path / "refused"))
    settings = forecast_settings({"CUDA_GRAPH": "off"})
    insisting = forecast_trainer(tmp_path / "insisting", settings)
    insisting.micro_steps = recorded(insisting, Refusing())
    insisting.micro_steps._graphs._insist = True
    with StopRequest() as stop, pytest.raises(RunError, match="not here"):
        insisting.run(stop)


def test_recorded_gradients_are_timed_as_launched_ones_are(tmp_path):
    trainer = train(tmp_path, forecast_settings(), CallRecorder(), timing=True)
    sections = trainer.timing.summary()["sections"]
    parts = {"data", "forward", "loss", "backward", "optimizer"}
    assert {f"step/{part}" for part in parts} <= sections.keys()


class Alternating(ForecastTask):
    """A part of the model takes part in every second step only."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Parameter(torch.ones(()))

    def losses(self, output, batch, step):
        factor = self.extra if step % 2 else 1.0
        return {"mse": super().losses(output, batch, step)["mse"] * factor}


def test_gradients_that_come_and_go_are_refused():
    task, model = Alternating(), nn.ParameterList([nn.Parameter(torch.ones(()))])
    model.append(task.extra)
    task.forward = lambda model, batch: batch["x"] * model[0]
    precision = Precision(TrainSettings(PRECISION="32"), CPU)
    optimizer = build_optimizer([{"params": list(model)}], TrainSettings().OPTIM)
    steps = RecordedMicroSteps(
        model,
        Work(task, precision, 1),
        ALONE,
        optimizer,
        torch.manual_seed,
        CallRecorder(),
        lambda step: step % 2,
        "32",
        insist=False,
    )
    batch = {"x": torch.ones(2), "future": torch.zeros(2)}
    steps.begin()
    steps(batch, 0, 0, True)
    assert task.extra.grad is None
    with pytest.raises(RunError, match=r"in some steps only.*TRAIN\.CUDA_GRAPH"):
        steps(batch, 1, 1, True)


@pytest.mark.parametrize(
    ("train_settings", "device", "variants", "obstacle"),
    [
        ({}, CPU, True, "type cpu"),
        ({}, GPU, False, r"no method variant\(step\)"),
        ({"COMPILE_MODEL": True, "COMPILE_MODE": "reduce-overhead"}, GPU, True, "reduce-overhead"),
        ({"COMPILE_MODEL": True, "COMPILE_MODE": "max-autotune"}, GPU, True, "max-autotune"),
        ({"COMPILE_MODEL": True}, GPU, True, None),
        ({"COMPILE_MODE": "max-autotune"}, GPU, True, None),
        ({}, GPU, True, None),
    ],
)
def test_where_micro_steps_may_be_recorded(train_settings, device, variants, obstacle):
    for asked in ("off", "auto"):
        train = TrainSettings(**train_settings, CUDA_GRAPH=asked)
        assert may_record(train, device, variants) is (asked == "auto" and obstacle is None)
    insisting = TrainSettings(**train_settings, CUDA_GRAPH="on")
    if obstacle is None:
        assert may_record(insisting, device, variants)
    else:
        with pytest.raises(ConfigError, match=f"CUDA_GRAPH is on, but .*{obstacle}.*auto or off"):
            may_record(insisting, device, variants)


@pytest.mark.parametrize("asked", ["auto", "off"])
def test_a_task_with_variants_is_recorded_on_cuda(asked):
    class Varied(ForecastTask):
        def variant(self, step):
            return 0

    train, model = TrainSettings(PRECISION="32", CUDA_GRAPH=asked), nn.Linear(2, 1)
    optimizer = build_optimizer([{"params": list(model.parameters())}], train.OPTIM)
    found = micro_steps(
        model,
        Varied(),
        train,
        Precision(train, CPU),
        Ranks(0, 0, 1, 1, GPU),
        optimizer,
        torch.manual_seed,
        CallRecorder,
        1,
    )
    kind = RecordedMicroSteps if asked == "auto" else LaunchedMicroSteps
    assert type(found) is kind
    assert (
        found.note
        == {
            "auto": "micro-steps are replayed as CUDA graphs",
            "off": "kernels are launched one by one",
        }[asked]
    )
