"""Learning rates of parts of a model, and parts that stay fixed at first."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

from tests.training.forecast import Disturbed, Forecaster
from tests.training.setup_run import forecast_settings, train

FROZEN = 3
STEPS = 7
TRAIN: dict[str, Any] = {
    "MAX_STEPS": STEPS,
    "GRADIENT_ACCUMULATION_STEPS": 1,
    "OPTIM": {"LR": 1e-2},
    "SCHED": {"WARMUP_STEPS": 2, "MIN_LR": 1e-4},
}


class Watch(Disturbed):
    """Notes weights and whether flow is in the graph before every step."""

    def __init__(self, steps: list[tuple[dict[str, torch.Tensor], bool]], stop_after: int) -> None:
        super().__init__(stop_after)
        self.steps = steps

    def forward(self, model, batch):
        if torch.is_grad_enabled():
            weights = {name: p.detach().clone() for name, p in model.named_parameters()}
            self.steps.append((weights, model.inlet(batch["past"]).requires_grad))
        return super().forward(model, batch)


@pytest.mark.parametrize("stop_after", [0, FROZEN - 1, FROZEN, FROZEN + 1])
def test_flow_is_fixed_for_the_first_steps_and_learns_in_the_next(tmp_path, stop_after):
    states, frozen = [], {"inlet": FROZEN}
    settings = forecast_settings(TRAIN)
    if stop_after:
        train(tmp_path, settings, objective=Watch(states, stop_after), frozen_steps=frozen)
        assert len(states) == stop_after
    train(tmp_path, settings, objective=Watch(states, 0), frozen_steps=frozen)
    assert len(states) == STEPS
    moved = [
        {name for name in after if not torch.equal(before[name], after[name])}
        for (before, _), (after, _) in pairwise(states)
    ]
    others = {"body.2.weight", "body.2.bias", "outlet.weight", "outlet.bias"}
    flow = {"inlet.weight", "inlet.bias"}
    assert moved == [others] * FROZEN + [others | flow] * (STEPS - 1 - FROZEN)
    in_graph = [of_flow for _, of_flow in states]
    assert in_graph == [False] * FROZEN + [True] * (STEPS - FROZEN)


def test_parameters_that_never_learn_are_not_released(tmp_path):
    class PartlyFixed(Forecaster):
        def __init__(self) -> None:
            super().__init__()
            self.inlet.bias.requires_grad_(False)

    frozen = {"inlet": FROZEN}
    settings = forecast_settings(TRAIN)
    trainer = train(tmp_path, settings, model=PartlyFixed, frozen_steps=frozen)
    assert trainer.learner.model.inlet.weight.requires_grad
    assert not trainer.learner.model.inlet.bias.requires_grad
