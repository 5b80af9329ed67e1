"""Targets that an objective adds itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.training.forecast import ForecastObjective
from tests.training.setup_run import forecast_settings, records, train
from vrtspike.system.errors import RunError
from vrtspike.training.batches import NoBatches
from vrtspike.training.objectives import Objective, TrainingParts

STEPS = 4
MICRO_BATCHES = 2


class Shifted(ForecastObjective):
    """Adds targets one above the true field; counts the calls of its methods in order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.types: set[torch.dtype] = set()

    def add_targets(self, batch):
        self.calls.append("targets")
        self.types.add(torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype)
        return {**batch, "target": batch["future"] + 1}

    def forward(self, model, batch):
        self.calls.append("forward")
        return super().forward(model, batch)

    def losses(self, output, batch, step):
        self.calls.append("losses")
        return {"shifted": (output - batch["target"]).square().mean()}

    def metrics(self, output, batch):
        assert "target" not in batch
        return super().metrics(output, batch)


def test_targets_are_added_before_each_forward_pass_of_training_alone(tmp_path):
    objective = Shifted()
    settings = forecast_settings(
        {"MAX_STEPS": STEPS, "PRECISION": "bf16-mixed"}, DATALOADER={"TRAIN_WORKERS": 0}
    )
    train(tmp_path, settings, objective=objective)
    steps = [record for record in records(tmp_path) if record["kind"] == "train"]
    assert [list(record["losses"]) for record in steps] == [["shifted"]] * STEPS
    micro_step = ["targets", "forward", "losses"]
    assert objective.calls[: 3 * STEPS * MICRO_BATCHES] == micro_step * (STEPS * MICRO_BATCHES)
    # Validation after the last step.
    assert set(objective.calls[3 * STEPS * MICRO_BATCHES :]) == {"forward"}
    assert objective.types == {torch.bfloat16}


def test_an_objective_has_defaults():
    batch = {"past": torch.zeros(1)}
    objective = ForecastObjective()
    assert objective.add_targets(batch) is batch
    assert Objective.pictures(objective, batch["past"], batch) == {}
    assert objective.lower_is_better == frozenset()


def test_attributes_of_an_objective_with_slots_are_unknown():
    """Only an identity names the run then (:func:`vrtspike.training.fit.fit`)."""

    class Slotted(Objective):
        __slots__ = ("scale",)

    Slotted.__abstractmethods__ = frozenset()
    assert not hasattr(Slotted(), "__dict__")


def test_an_objective_of_another_class_is_refused():
    class Other:
        metric = "skill"

    with pytest.raises(RunError, match=r"test_objectives\..*Other, expected one of a subclass of"):
        TrainingParts(nn.Identity(), Other(), NoBatches(), None)
