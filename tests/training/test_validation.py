"""Validation: means over all samples, the model's state, requests to stop."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from tests.training.forecast import FUTURE, Forecaster, ForecastObjective, Waves
from tests.training.replicas import call_by_two
from tests.training.setup_run import ALONE, batches_of, forecast_settings, loading
from vrtspike.config.run_schema import EarlyStoppingSettings
from vrtspike.io.files import read_json, write_json
from vrtspike.system.errors import RunError
from vrtspike.training.batches import ValidationBatches
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.objectives import TrainingParts
from vrtspike.training.precision import Precision
from vrtspike.training.validation import validate_model, watched_metric

SAMPLES = 5
RUNNING = SimpleNamespace(received=None)
SETTINGS = forecast_settings()  # validation in batches of two: the last one has a single sample


class Recording(ForecastObjective):
    """Keeps what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.modes: set[tuple[bool, bool]] = set()
        self.pictured = 0

    def forward(self, model, batch):
        self.modes.add((model.training, torch.is_grad_enabled()))
        return super().forward(model, batch)

    def pictures(self, output, batch):
        self.pictured += 1
        return super().pictures(output, batch)


def validated(model: nn.Module, objective: ForecastObjective, stop=RUNNING, ranks=ALONE):
    held_out = ValidationBatches(Waves(SAMPLES), SETTINGS, loading(0), ranks)
    parts = TrainingParts(model, objective, batches_of(Waves(SAMPLES), 2), held_out)
    precision = Precision(SETTINGS.TRAIN, ranks.device)
    return validate_model(model, parts, ranks, precision, stop)


def test_metrics_are_means_over_samples_not_over_batches():
    model = Forecaster().eval()
    objective = ForecastObjective()
    means, _ = validated(model, objective)
    skills = []
    data = Waves(SAMPLES)
    for index in range(SAMPLES):
        sample = {name: value[None] for name, value in data[index].items()}
        with torch.no_grad():
            (metrics,) = objective.metrics(model(sample["past"]), sample)
        skills.append(metrics["skill"])
    assert means == {"skill": pytest.approx(np.mean(skills), rel=1e-5)}
    assert [index for batch in objective.seen for index in batch] == list(range(SAMPLES))


@pytest.mark.parametrize("is_training", [True, False])
def test_the_model_is_in_evaluation_mode_without_gradients_and_then_as_before(is_training):
    model = Forecaster().train(is_training)
    objective = Recording()
    _, pictures = validated(model, objective)
    assert objective.modes == {(False, False)}
    assert model.training == is_training
    # Of the first batch only.
    assert objective.pictured == 1
    assert pictures["forecast"].shape == (16, 2 * 16, 3)


def test_a_request_to_stop_ends_it_without_metrics():
    model = Forecaster().train()
    stop = SimpleNamespace(received=None)

    class Stopped(ForecastObjective):
        def metrics(self, output, batch):
            stop.received = signal.SIGTERM
            return super().metrics(output, batch)

    objective = Stopped()
    assert validated(model, objective, stop) is None
    assert objective.seen == [[0, 1]]
    assert model.training


def test_values_that_are_not_finite_are_an_error_and_the_mode_is_restored():
    class Spoiled(Forecaster):
        def forward(self, past):
            return torch.full((len(past), FUTURE, *past.shape[2:]), torch.inf)

    model = Spoiled().train()
    with pytest.raises(FloatingPointError, match=r"not finite for sample 0, sample 1$"):
        validated(model, ForecastObjective())
    assert model.training


class OneSpoiled(ForecastObjective):
    """The model gives no finite values for one sample."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self._index = index

    def forward(self, model, batch):
        output = super().forward(model, batch)
        return output / (self._index not in batch["index"])


def validate_as_one_of_two(ranks: DistributedContext, folder: Path, index: int) -> None:
    """Write the error of a validation, and the samples that were seen."""
    objective = OneSpoiled(index)
    with pytest.raises(FloatingPointError) as raised:
        validated(Forecaster(), objective, ranks=ranks)
    write_json(folder / f"{ranks.rank}.json", [str(raised.value), objective.seen])


# The first process has the samples 0, 2 and 4, in two batches; the second one 1 and 3, in one.
@pytest.mark.parametrize(
    ("index", "names", "seen"),
    [
        (3, "sample 1, sample 3", [[[0, 2]], [[1, 3]]]),
        (4, "sample 4", [[[0, 2], [4]], [[1, 3]]]),
    ],
)
def test_all_processes_name_what_is_not_finite_on_one(tmp_path, index, names, seen):
    call_by_two(validate_as_one_of_two, tmp_path, index)
    results = [read_json(tmp_path / f"{rank}.json") for rank in range(2)]
    message = f"the model gives values that are not finite for {names}"
    assert results == [[message, batches] for batches in seen]


@pytest.mark.parametrize(
    ("watching", "expected"), [(None, "skill"), ("main", "skill"), ("error", "error")]
)
def test_early_stopping_can_watch_another_metric_than_the_main_one(watching, expected):
    stopping = None if watching is None else EarlyStoppingSettings(METRIC=watching)
    assert watched_metric("skill", stopping, {"skill": 1.0, "error": 2.0}) == expected


@pytest.mark.parametrize(
    ("main", "watching", "message"),
    [
        (
            "gain",
            "main",
            r"the objective's metric is gain, but its metrics are skill, error",
        ),
        ("skill", "rmse", r"METRIC is rmse, but validation gives skill, error; set it to main for"),
    ],
)
def test_a_metric_that_validation_lacks_is_named(main, watching, message):
    with pytest.raises(RunError, match=message):
        watched_metric(main, EarlyStoppingSettings(METRIC=watching), {"skill": 1.0, "error": 2.0})
