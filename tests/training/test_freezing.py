"""Learning rates of parts of a model, and parts that stay fixed at first."""

from __future__ import annotations

import math
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.forecast import FlowForecaster
from tests.training.setup_run import forecast_settings, forecast_trainer
from tests.training.stopping import StopAfter
from tests.training.test_loop import assert_same, final_state
from vrtspike.deblurring.settings import Settings
from vrtspike.launching.signals import StopRequest
from vrtspike.training.freezing import FrozenStart
from vrtspike.training.loop import Trainer

FROZEN = 3
STEPS = 7
TRAIN = {
    "MAX_STEPS": STEPS,
    "GRADIENT_ACCUMULATION_STEPS": 1,
    "FREEZE_FLOW_STEPS": FROZEN,
    "OPTIM": {"LR": 1e-2, "LR_FACTORS": {"NEW": 2.0, "BACKBONE": 0.5, "FLOW": 0.25}},
    "SCHED": {"WARMUP_STEPS": 2, "MIN_LR": 1e-4},
}


class Watch(StopAfter):
    """Notes weights, rates and whether flow is in the graph before every step."""

    def __init__(self, stop_after: int = 0) -> None:
        super().__init__(stop_after, signal.SIGTERM)
        self.trainer: Trainer | None = None
        self.weights: list[dict[str, torch.Tensor]] = []
        self.rates: list[dict[str, float]] = []
        self.in_graph: list[bool] = []

    def forward(self, model, batch):
        assert self.trainer is not None
        if torch.is_grad_enabled():
            named = self.trainer.model.named_parameters()
            self.weights.append({name: p.detach().clone() for name, p in named})
            groups = self.trainer.optimizer.param_groups
            self.rates.append({group["name"]: group["lr"] for group in groups})
            self.in_graph.append(self.trainer.model.inlet(batch["past"]).requires_grad)
        return super().forward(model, batch)


def run(folder: Path, settings: Settings, task: Watch, **options: Any) -> Watch:
    task.trainer = forecast_trainer(folder, settings, model=FlowForecaster, task=task, **options)
    with StopRequest() as stop:
        task.trainer.run(stop)
    task.trainer.log.close()
    return task


def whole_or_resumed(folder: Path, stop_after: int, **train: Any) -> Watch:
    """What was seen before every step of a run that is stopped after so many steps; never for 0."""
    settings = forecast_settings({**TRAIN, **train})
    seen = run(folder, settings, Watch(stop_after))
    if stop_after:
        assert len(seen.weights) == stop_after
        rest = run(folder, settings, Watch())
        for name in ("weights", "rates", "in_graph"):
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


@pytest.mark.parametrize("stop_after", [0, 1, FROZEN + 1])
def test_every_group_has_its_rate_in_every_step(tmp_path, stop_after):
    seen = whole_or_resumed(tmp_path, stop_after)
    # Two steps of warm-up, then half a cosine over the other five, whose last has MIN_LR.
    rates = [0.5e-2, 1e-2]
    rates += [1e-4 + (1e-2 - 1e-4) * (1 + math.cos(math.pi * i / 4)) / 2 for i in range(5)]
    assert rates[-1] == 1e-4
    for found, rate in zip(seen.rates, rates, strict=True):
        assert found == pytest.approx({"new": 2 * rate, "backbone": rate / 2, "flow": rate / 8})


@pytest.mark.parametrize("compiled", [False, True])
def test_nothing_else_changes_when_flow_has_no_gradient(tmp_path, compiled):
    """As if its gradients were computed and thrown away, to the last bit."""

    def compile_parts(model: nn.Module, mode: str) -> None:
        for part in (model.inlet, model.outlet):
            part.compile(backend="aot_eager")  # needs no C++ compiler

    options = {"compiler": compile_parts}
    settings = forecast_settings({**TRAIN, "COMPILE_MODEL": compiled})
    run(tmp_path / "frozen", settings, Watch(), **options)
    settings = forecast_settings(
        {**TRAIN, "COMPILE_MODEL": compiled, "FREEZE_FLOW_STEPS": None, "EPOCHS": 50}
    )
    watch = Watch()
    watch.trainer = forecast_trainer(
        tmp_path / "thrown away", settings, model=FlowForecaster, task=watch, **options
    )

    def throw_away(parameter: nn.Parameter) -> None:
        if watch.trainer.progress.step < FROZEN:
            parameter.grad = None

    for parameter in watch.trainer.model.inlet.parameters():
        parameter.register_post_accumulate_grad_hook(throw_away)
    with StopRequest() as stop:
        watch.trainer.run(stop)
    states = [final_state(tmp_path / name) for name in ("frozen", "thrown away")]
    for state in states:
        del state["settings"]
    assert_same(*states)


def test_parameters_that_never_learn_are_not_released(tmp_path):
    class PartlyFixed(FlowForecaster):
        def __init__(self) -> None:
            super().__init__()
            self.inlet.bias.requires_grad_(False)

    settings = forecast_settings(TRAIN)
    trainer = forecast_trainer(tmp_path, settings, model=PartlyFixed)
    with StopRequest() as stop:
        trainer.run(stop)
    assert trainer.model.inlet.weight.requires_grad
    assert not trainer.model.inlet.bias.requires_grad


def test_it_says_when_something_changed():
    layer = nn.Linear(2, 1)
    start = FrozenStart(layer.parameters(), 2)
    assert [start.apply(step) for step in (0, 1, 2, 3)] == [True, False, True, False]
    assert all(p.requires_grad for p in layer.parameters())
    assert not FrozenStart(layer.parameters(), 0).apply(0)
