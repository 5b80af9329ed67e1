"""A run worked out again in a few lines of PyTorch: steps, average, validation, the best."""

from __future__ import annotations

import json
import math
import os
import random
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training import setup_run
from tests.training.forecast import Disturbed, Forecaster, ForecastObjective, Waves
from tests.training.setup_run import forecast_settings, last_micro_batch, records, run
from vrtspike.config.run_schema import RunSettings
from vrtspike.training.checkpoints import list_checkpoints
from vrtspike.training.loop import Trainer

STEPS, MICRO, SPOILED = 6, 2, 3
TRAIN = {
    "MAX_STEPS": STEPS,
    "GRADIENT_ACCUMULATION_STEPS": MICRO,
    "MAX_GRAD_NORM": 1.0,
    "EMA": 0.8,
    # A global batch of 2 x 2 over 1: twice the rate.
    "SCALE_LR": "sqrt",
    "BASE_BATCH_SIZE": 1,
    "OPTIM": {
        "LR": 5e-3,
        "BETAS": [0.8, 0.9],
        "WEIGHT_DECAY": 0.1,
    },
    "SCHED": {"WARMUP_STEPS": 2, "MIN_LR": 1e-4},
    "SAVE_EVERY_STEPS": 100,
}
RATES = {"others": 2.0, "body": 0.5, "inlet": 0.125}
forecast_trainer = partial(setup_run.forecast_trainer, lr_factors=RATES)
LOG = {"VAL_EVERY_STEPS": 2, "TENSORBOARD": False, "MEMORY_EVERY_STEPS": 4}


class Plain(Forecaster):
    """Without random numbers, so that it can be computed again."""

    def __init__(self) -> None:
        super().__init__()
        self.body[1] = nn.Identity()


class TwoTerms(ForecastObjective):
    """Two terms of a loss; keeps the training batches and spoils a step."""

    def __init__(self, spoiled: int = -1) -> None:
        super().__init__()
        self.batches: list[dict[str, torch.Tensor]] = []
        self._spoiled = spoiled

    def losses(self, output, batch, step):
        self.batches.append(batch)
        factor = math.nan if step == self._spoiled else 1.0
        return {name: factor * term for name, term in terms(output, batch).items()}


def terms(output: torch.Tensor, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    difference = output - batch["future"]
    return {"mse": difference.square().mean(), "absolute": 0.5 * difference.abs().mean()}


def settings_of(train: dict[str, Any] | None = None, **log: Any) -> RunSettings:
    return forecast_settings({**TRAIN, **(train or {})}).model_copy(
        update={"LOG": forecast_settings().LOG.model_copy(update={**LOG, **log})}
    )


class ByHand:
    """Expected result of a run, from its batches and first weights alone."""

    def __init__(
        self, first: dict[str, torch.Tensor], batches: list[dict], limit: float = 1.0
    ) -> None:
        self.model = Plain()
        self.model.load_state_dict(first)
        self.losses: list[float] = []
        self.norms: list[float] = []
        self.rates: list[float] = []
        self.averages: list[dict[str, torch.Tensor]] = []
        parts = (self.model.outlet, self.model.body, self.model.inlet)
        self._optimizer = torch.optim.AdamW(
            [{"params": list(part.parameters())} for part in parts],
            betas=(0.8, 0.9),
            weight_decay=0.1,
        )
        for step in range(STEPS):
            self._take(step, batches[MICRO * step : MICRO * (step + 1)], limit)

    def _take(self, step: int, batches: list[dict], limit: float) -> None:
        """Take a step, but for the weights of the spoiled one."""
        rate = self.rate(step)
        for group, factor in zip(self._optimizer.param_groups, (2.0, 0.5, 0.125), strict=True):
            group["lr"] = factor * rate
        loss = self._gradients(batches)
        norm = self._clip(limit)
        if step == SPOILED:
            loss = norm = math.nan
        else:
            self._optimizer.step()
        self.losses.append(loss)
        self.norms.append(norm)
        self.rates.append(rate)
        self.averages.append(self._average(step))

    @staticmethod
    def rate(step: int) -> float:
        """The learning rate: two steps of warm-up, then a cosine."""
        if step < 2:
            return 1e-2 * (step + 1) / 2
        return 1e-4 + (1e-2 - 1e-4) * (1 + math.cos(math.pi * (step - 2) / 3)) / 2

    def _gradients(self, batches: list[dict]) -> float:
        """Compute the mean gradients of the micro-batches; returns the mean loss."""
        self._optimizer.zero_grad()
        total = 0.0
        for batch in batches:
            loss = sum(terms(self.model(batch["past"]), batch).values()) / MICRO
            loss.backward()
            total += loss.item()
        return total

    def _clip(self, limit: float) -> float:
        """Scale the gradients to a norm of at most the limit; returns the norm before."""
        gradients = [p.grad for p in self.model.parameters()]
        norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients))
        if norm > limit:
            for gradient in gradients:
                gradient *= limit / norm
        return norm

    def _average(self, step: int) -> dict[str, torch.Tensor]:
        """The moving average after a step; a spoiled one leaves it."""
        weights = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        if step == 0:
            return weights
        last = self.averages[-1]
        if step == SPOILED:
            return last
        return {name: 0.8 * last[name] + 0.2 * value for name, value in weights.items()}

    def skill(self, step: int) -> float:
        """1 - error / variance of the average after so many steps, over five samples."""
        model, waves, result = Plain(), Waves(5), []
        model.load_state_dict(self.averages[step - 1])
        for index in range(5):
            sample = waves[index]
            with torch.no_grad():
                output = model(sample["past"][None])[0]
            error = (output - sample["future"]).square().mean()
            result.append(1 - float(error / sample["future"].var()))
        return float(np.mean(result))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, Trainer, dict[str, torch.Tensor], TwoTerms]:
    folder = tmp_path_factory.mktemp("steps")
    objective = TwoTerms(SPOILED)
    trainer = forecast_trainer(folder, settings_of(), model=Plain, objective=objective, samples=7)
    first = {name: p.detach().clone() for name, p in trainer.learner.model.named_parameters()}
    return folder, run(trainer), first, objective


@pytest.fixture(scope="module")
def expected(trained) -> ByHand:
    _, _, first, objective = trained
    assert len(objective.batches) == STEPS * MICRO
    return ByHand(first, objective.batches)


def test_every_step_is_adamw_on_clipped_mean_gradients(trained, expected):
    folder, trainer, first, objective = trained
    result = [r for r in records(folder) if r["kind"] == "train"]
    finite = [step for step in range(STEPS) if step != SPOILED]
    norms = [expected.norms[step] for step in finite]
    # Some steps are clipped and some are not, which decides where it ends.
    assert min(norms) < 0.9 < 1.1 < max(norms)
    other = ByHand(first, objective.batches, limit=math.inf)
    assert not torch.allclose(other.model.inlet.weight, expected.model.inlet.weight, rtol=1e-2)
    for step, record in enumerate(result):
        assert record["lr"] == pytest.approx(expected.rates[step])
        assert record["skipped"] == (step == SPOILED)
        if step != SPOILED:
            assert record["loss"] == pytest.approx(expected.losses[step], rel=1e-4)
            assert sum(record["losses"].values()) == pytest.approx(record["loss"])
            assert record["grad_norm"] == pytest.approx(expected.norms[step], rel=1e-4)
    for name, value in expected.model.named_parameters():
        torch.testing.assert_close(
            trainer.learner.model.get_parameter(name), value, rtol=1e-4, atol=1e-5
        )


def test_without_a_limit_nothing_is_clipped(tmp_path):
    objective = TwoTerms(SPOILED)
    settings = settings_of({"MAX_GRAD_NORM": None})
    trainer = forecast_trainer(tmp_path, settings, model=Plain, objective=objective, samples=7)
    first = {name: p.detach().clone() for name, p in trainer.learner.model.named_parameters()}
    run(trainer)
    expected = ByHand(first, objective.batches, limit=math.inf)
    for name, value in expected.model.named_parameters():
        torch.testing.assert_close(
            trainer.learner.model.get_parameter(name), value, rtol=1e-4, atol=1e-5
        )


def test_the_average_is_validated_kept_as_the_best_and_published(trained, expected):
    folder, trainer, *_ = trained
    skills = {r["step"]: r["skill"] for r in records(folder) if r["kind"] == "validation"}
    assert skills == {step: pytest.approx(expected.skill(step), abs=1e-4) for step in (2, 4, 6)}
    best = max(skills, key=lambda step: skills[step])
    kept = load_file(folder / "best.safetensors")
    last = dict(trainer.learner.trained_model().named_parameters())
    for name, value in expected.averages[-1].items():
        torch.testing.assert_close(last[name], value, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(
            kept[name], expected.averages[best - 1][name], rtol=1e-4, atol=1e-5
        )


class Observed(ForecastObjective):
    """Notes the random numbers that a model would draw, how it is called, and types of values."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[tuple[float, float, float]] = []
        self.modes: set[tuple[bool, bool]] = set()
        self.types: set[tuple[str, torch.dtype]] = set()

    def forward(self, model, batch):
        training = torch.is_grad_enabled()
        self.modes.add((training, all(module.training == training for module in model.modules())))
        if training:
            numbers = random.random(), float(np.random.random()), float(torch.rand(()))
            self.drawn.append(numbers)
        output = super().forward(model, batch)
        self.types.add(("training" if training else "validation", output.dtype))
        return output

    def losses(self, output, batch, step):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
        self.types |= {("output", output.dtype), ("product", product.dtype)}
        return super().losses(output, batch, step)

    def metrics(self, output, batch):
        self.types.add(("measured", output.dtype))
        return super().metrics(output, batch)


@pytest.fixture(scope="module")
def observed(tmp_path_factory) -> dict[str, Observed]:
    """Runs in bfloat16 with two seeds, one of them twice."""
    runs = {}
    for name, seed in (("first seed", 1), ("repeated", 1), ("second seed", 2)):
        objective = Observed()
        settings = settings_of({"PRECISION": "bf16-mixed"}).model_copy(update={"SEED": seed})
        folder = tmp_path_factory.mktemp("observed")
        run(forecast_trainer(folder, settings, objective=objective, timing=True))
        runs[name] = objective
    return runs


def test_dropout_works_in_every_training_pass_and_in_no_other(observed):
    """In those after a validation, too."""
    assert observed["first seed"].modes == {(True, True), (False, True)}


def test_half_precision_ends_before_losses_and_metrics(observed):
    half = {("training", torch.bfloat16), ("validation", torch.bfloat16)}
    whole = {(name, torch.float32) for name in ("output", "product", "measured")}
    assert observed["first seed"].types == half | whole


def test_every_micro_batch_draws_numbers_of_its_own(observed):
    assert len(set(observed["first seed"].drawn)) == STEPS * MICRO


def test_a_seed_repeats_its_numbers(observed):
    assert observed["first seed"].drawn == observed["repeated"].drawn


def test_two_seeds_share_no_numbers(observed):
    for place in range(3):
        numbers = [
            {draw[place] for draw in observed[name].drawn} for name in ("first seed", "second seed")
        ]
        assert numbers[0].isdisjoint(numbers[1])


class Casts(TorchDispatchMode):
    """Counts casts to bfloat16 of tensors of a shape."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape = shape
        self.number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function is torch.ops.aten._to_copy.default:
            self.number += result.dtype == torch.bfloat16 and result.shape == self.shape
        return result


def test_recomputation_uses_the_casts_of_the_forward_pass(tmp_path):
    recomputed_weight = Forecaster().body[2].weight
    objective = ForecastObjective()
    settings = settings_of({"PRECISION": "bf16-mixed"})
    with Casts(recomputed_weight.shape) as casts:
        run(forecast_trainer(tmp_path, settings, objective=objective))
    # One for each batch, of training or validation.
    assert casts.number == len(objective.seen)


def test_checkpoints_pictures_and_memory_have_their_steps(tmp_path):
    settings = settings_of(
        {"MAX_STEPS": 11, "SAVE_EVERY_STEPS": 3, "KEEP_LAST": 3}, VISUALS_EVERY_STEPS=4
    )
    run(forecast_trainer(tmp_path, settings))
    assert [step for step, _ in list_checkpoints(tmp_path / "checkpoints")] == [11, 9, 6]
    pictures = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert pictures == [f"step_{step:08d}_forecast.png" for step in (4, 8, 11)]
    lines = (tmp_path / "logs" / "memory.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 4, 8]
    validated = [r["step"] for r in records(tmp_path) if r["kind"] == "validation"]
    assert validated == [2, 4, 6, 8, 10, 11]


@pytest.mark.parametrize(
    ("cut", "every", "steps"), [(0, 4, [5, 8, 9]), (7, 4, [5, 8, 9]), (0, 20, [9])]
)
def test_pictures_come_with_the_first_validation_after_a_multiple_and_the_last(
    tmp_path, cut, every, steps
):
    # Five batches make an epoch, two a step: validations after steps 3, 5, 8 and 9.
    settings = settings_of({"MAX_STEPS": 9}, VAL_EVERY_STEPS=None, VISUALS_EVERY_STEPS=every)
    if cut:
        run(forecast_trainer(tmp_path, settings, objective=Disturbed(last_micro_batch(cut))))
    run(forecast_trainer(tmp_path, settings))
    validated = [r["step"] for r in records(tmp_path) if r["kind"] == "validation"]
    assert validated == [3, 5, 8, 9]
    pictures = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert pictures == [f"step_{step:08d}_forecast.png" for step in steps]


def test_a_finished_run_is_left_as_it_is(trained):
    folder, *_ = trained
    before = records(folder, timeless=False)
    speeds = [(r["data_ms"], r["samples_per_second"]) for r in before if r["kind"] == "train"]
    assert min(map(min, speeds)) > 0
    run(forecast_trainer(folder, settings_of(), model=Plain, samples=7))
    assert records(folder, timeless=False) == before


class StopInValidation(ForecastObjective):
    """Asks this process to stop while it measures the first batch of a validation."""

    def metrics(self, output, batch):
        os.kill(os.getpid(), signal.SIGTERM)
        return super().metrics(output, batch)


def test_an_interrupted_validation_is_repeated(tmp_path):
    run(forecast_trainer(tmp_path / "whole", settings_of()))
    objective = StopInValidation()
    run(forecast_trainer(tmp_path / "cut", settings_of(), objective=objective))
    assert [r["kind"] for r in records(tmp_path / "cut")] == ["train", "train"]
    # Two steps of two batches, and the first batch of the validation.
    assert len(objective.seen) == 2 * MICRO + 1
    run(forecast_trainer(tmp_path / "cut", settings_of()))
    assert records(tmp_path / "cut") == records(tmp_path / "whole")
