"""Learning rates of parts of a model, and parts that stay fixed at first."""

from __future__ import annotations

import signal
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from tests.training.forecast import Forecaster, StopAfter
from tests.training.setup_run import forecast_settings, forecast_trainer
from tests.training.setup_run import run as finish
from vrtspike.config.run_schema import RunSettings
from vrtspike.training.loop import Trainer

FROZEN = 3
STEPS = 7
TRAIN = {
    "MAX_STEPS": STEPS,
    "GRADIENT_ACCUMULATION_STEPS": 1,
    "OPTIM": {"LR": 1e-2},
    "SCHED": {"WARMUP_STEPS": 2, "MIN_LR": 1e-4},
}


class Watch(StopAfter):
    """Notes weights and whether flow is in the graph before every step."""

    def __init__(self, stop_after: int = 0) -> None:
        super().__init__(stop_after, signal.SIGTERM)
        self.trainer: Trainer | None = None
        self.weights: list[dict[str, torch.Tensor]] = []
        self.in_graph: list[bool] = []

    def forward(self, model, batch):
        assert self.trainer is not None
        if torch.is_grad_enabled():
            named = self.trainer.model.named_parameters()
            self.weights.append({name: p.detach().clone() for name, p in named})
            self.in_graph.append(self.trainer.model.inlet(batch["past"]).requires_grad)
        return super().forward(model, batch)


def run(folder: Path, settings: RunSettings, task: Watch) -> Watch:
    frozen = {"inlet": FROZEN}
    task.trainer = forecast_trainer(folder, settings, task=task, frozen_steps=frozen)
    finish(task.trainer)
    return task


def whole_or_resumed(folder: Path, stop_after: int) -> Watch:
    """What was seen before every step of a run that is stopped after so many steps; never for 0."""
    settings = forecast_settings(TRAIN)
    seen = run(folder, settings, Watch(stop_after))
    if stop_after:
        assert len(seen.weights) == stop_after
        rest = run(folder, settings, Watch())
        for name in ("weights", "in_graph"):
            getattr(seen, name).extend(getattr(rest, name))
    assert len(seen.weights) == STEPS
    return seen


@pytest.mark.parametrize("stop_after", [0, FROZEN - 1, FROZEN, FROZEN + 1])
def test_flow_is_fixed_for_the_first_steps_and_learns_in_the_next(tmp_path, stop_after):
    seen = whole_or_resumed(tmp_path, stop_after)
    moved = [
        {name for name in after if not torch.equal(before[name], after[name])}
        for before, after in pairwise(seen.weights)
    ]
    others = {"body.2.weight", "body.2.bias", "outlet.weight", "outlet.bias"}
    flow = {"inlet.weight", "inlet.bias"}
    assert moved == [others] * FROZEN + [others | flow] * (STEPS - 1 - FROZEN)
    assert seen.in_graph == [False] * FROZEN + [True] * (STEPS - FROZEN)


def test_parameters_that_never_learn_are_not_released(tmp_path):
    class PartlyFixed(Forecaster):
        def __init__(self) -> None:
            super().__init__()
            self.inlet.bias.requires_grad_(False)

    settings = forecast_settings(TRAIN)
    frozen = {"inlet": FROZEN}
    trainer = forecast_trainer(tmp_path, settings, model=PartlyFixed, frozen_steps=frozen)
    finish(trainer)
    assert trainer.model.inlet.weight.requires_grad
    assert not trainer.model.inlet.bias.requires_grad
