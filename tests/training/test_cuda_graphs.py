"""Which micro-steps are run eagerly and which replayed, and when a graph is not trusted."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.call_graphs import CallGraphs
from tests.training.forecast import Forecaster, StopAfter
from tests.training.setup_run import forecast_settings, forecast_trainer, records, run
from tests.training.test_loop import assert_same, final_state
from vrtspike.config.run_schema import TrainSettings
from vrtspike.deblurring.data.clips.batch import Clip
from vrtspike.deblurring.models.stochastic_depth import StochasticDepth
from vrtspike.deblurring.task import PreparedBatch
from vrtspike.errors import ConfigError, RunError
from vrtspike.training.cuda_graphs import (
    WARM_UP,
    GraphedMicroSteps,
    may_capture,
)
from vrtspike.training.distributed import Ranks
from vrtspike.training.loop import Trainer
from vrtspike.training.micro_steps import LaunchedMicroSteps, Terms

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ALONE = Ranks(0, 0, 1, 1, CPU)


class Noisy(nn.Module):
    """Numbers drawn by a layer and on the host, a buffer that changes and one that is a view."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(3, 1)
        self.depth = StochasticDepth([0.0, 0.4])
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("constant", torch.ones(1).expand(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        factors = self.depth(x).sum((0, 1))[:, None]
        return self.linear(x * self.constant) * factors * torch.rand(len(x), 1)


class Bench:
    """A small model and its micro-steps, graphed or, for comparison, eager."""

    def __init__(self, graphs: type[CallGraphs] | None = CallGraphs, **options: Any) -> None:
        self.model, self.variants, self.ran = Noisy(), 1, 0
        optimizer = torch.optim.SGD(self.model.parameters())
        given = (self.model, self.work, ALONE, optimizer, torch.manual_seed)
        if graphs is None:
            self.steps = LaunchedMicroSteps(*given)
            return
        self.graphs, variant = graphs(self.model), lambda step: step % self.variants
        options = {"insist": False} | options
        self.steps = GraphedMicroSteps(*given, self.graphs, variant, **options)

    def work(self, model: nn.Module, batch: Any, step: int, *_: Any) -> Terms:
        self.ran += 1
        loss = model(batch["x"]).square().mean() * (1 + step % 2)
        loss.backward()
        return {"loss": loss.detach(), "count": model.count.clone(), "zero": torch.zeros(())}

    def __call__(self, number: int, size: int = 2, step: int = 0, **parts: Any) -> Terms:
        batch = {"x": torch.full((size, 3), 1.0 + number)} | parts
        return self.steps(batch, number, step, False)

    def run(self, numbers: range, **options: Any) -> list[Terms]:
        """Terms of micro-batches, of which all are read at the end."""
        return [self(number, **options) for number in numbers]


def assert_as_eager(bench: Bench, found: list[Terms], numbers: range, **options: Any) -> None:
    """Terms, gradients and buffers are those of eager micro-steps, to the last bit."""
    eager = Bench(None)
    assert_same(found, eager.run(numbers, **options))
    for name in ("weight", "bias"):
        ours, theirs = (getattr(each.model.linear, name).grad for each in (bench, eager))
        assert torch.equal(ours, theirs)
    assert bench.model.count == eager.model.count


def test_results_are_those_of_eager_micro_steps(recwarn):
    bench, numbers = Bench(), range(8)
    assert_as_eager(bench, bench.run(numbers), numbers)
    assert bench.graphs.captures == 1
    # The fourth is run, captured and replayed, those after it are only replayed.
    assert bench.graphs.replays == 8 - WARM_UP
    assert bench.ran == WARM_UP + 2 + bench.graphs.replays
    assert not recwarn.list


def test_a_batch_of_another_size_is_run_eagerly_without_graphs_in_memory():
    bench = Bench()
    bench.run(range(6))
    assert (bench.graphs.replays, bench.graphs.releases) == (3, 0)
    bench(6, size=1)
    assert (bench.graphs.replays, bench.graphs.releases) == (3, 1)
    # The warm-up begins again.
    bench.run(range(7, 7 + WARM_UP))
    assert (bench.graphs.captures, bench.graphs.replays, bench.ran) == (1, 3, 12)
    # So does the check: run, captured and replayed.
    bench(7 + WARM_UP)
    assert (bench.graphs.captures, bench.graphs.replays, bench.ran) == (2, 4, 15)


def test_variants_of_the_step_have_graphs_side_by_side():
    bench, eager = Bench(), Bench(None)
    bench.variants = 2
    for number in range(20):
        assert_same(bench(number, step=number), eager(number, step=number))
    # The check of the second variant deleted the first one's graph, which needs no other check.
    assert bench.graphs.captures == 3
    assert torch.equal(bench.model.linear.weight.grad, eager.model.linear.weight.grad)
    assert bench.graphs.replays == 20 - 2 * WARM_UP


class Breaking(CallGraphs):
    """Whatever fails while a device captures, the end of the capture fails as well."""

    def capture(self, work: Callable[[], Terms]) -> Callable[[], Terms]:
        try:
            raise ValueError("a copy waits for the host")
        except ValueError:
            raise RuntimeError("the capture was broken by an earlier error") from None


class Wrong(CallGraphs):
    """Replays that compute something else in silence."""

    def capture(self, work: Callable[[], Terms]) -> Callable[[], Terms]:
        return super().capture(partial(self.spoil, work))

    def spoil(self, work: Callable[[], Terms]) -> Terms:
        raise NotImplementedError


class Stale(Wrong):
    """Draws at a replay what it drew in the capture."""

    state: torch.Tensor | None = None

    def spoil(self, work: Callable[[], Terms]) -> Terms:
        self.state = torch.get_rng_state() if self.state is None else self.state
        torch.set_rng_state(self.state)
        return work()


class Twice(Wrong):
    """Counts gradients twice; the terms are right."""

    def spoil(self, work: Callable[[], Terms]) -> Terms:
        terms = work()
        work()
        return terms


FAULTS = {
    Breaking: "ValueError: a copy waits for the host",
    Stale: "gradient norm of a replay are",
    Twice: "gradient norm of a replay are",
}


@pytest.mark.parametrize("graphs", FAULTS, ids=lambda kind: kind.__name__)
def test_a_graph_that_is_wrong_is_not_used_and_one_warning_or_an_error_says_so(graphs):
    bench = Bench(graphs)
    with pytest.warns(UserWarning, match=FAULTS[graphs] + r".*TRAIN\.CUDA_GRAPH: off") as caught:
        found = bench.run(range(9))
    assert len(caught) == 1
    assert_as_eager(bench, found, range(9))
    assert bench.graphs.captures == bench.graphs.replays == issubclass(graphs, Wrong)
    assert bench.graphs.releases
    insisting = Bench(graphs, insist=True)
    insisting.run(range(WARM_UP))
    with pytest.raises(RunError, match=FAULTS[graphs] + ".*Set it to auto or off"):
        insisting(WARM_UP)


X, Y = torch.zeros(2, 3), torch.ones(2, 3)


@pytest.mark.parametrize(
    ("one", "other", "replays"),
    [
        (
            {"clip": PreparedBatch(Clip(X, Y, None)), "n": 3},
            {"clip": PreparedBatch(Clip(Y, X, None)), "n": 3},
            2,
        ),
        ([X, (Y, None)], [Y, (X, None)], 2),
        ({"x": X, "y": X}, {"y": X, "x": X}, 1),
        (X, torch.zeros(3, 2).mT, 1),
        (X, X.double(), 1),
        (1, 2, 1),
        ([[X], X], [[X, X]], 1),
        (PreparedBatch(Clip(X, X, None)), PreparedBatch(Clip(X, X, X)), 1),
        # What is unknown may differ unseen.
        ({1}, {1}, 0),
    ],
)
def test_a_graph_serves_batches_of_one_layout(one, other, replays):
    """Shapes, types and plain values; what tensors hold may differ."""
    bench = Bench()
    bench.run(range(WARM_UP + 1), part=one)
    bench(WARM_UP + 1, part=other)
    assert bench.graphs.replays == replays


@pytest.mark.parametrize(
    ("train", "device", "variants", "obstacle"),
    [
        ({}, CPU, True, "type cpu"),
        ({}, GPU, False, r"no method variant\(step\)"),
        ({"COMPILE_MODEL": True, "COMPILE_MODE": "max-autotune"}, GPU, True, "max-autotune"),
        ({"COMPILE_MODEL": True}, GPU, True, None),
        ({"COMPILE_MODE": "max-autotune"}, GPU, True, None),
        ({}, GPU, True, None),
    ],
)
def test_where_micro_steps_may_be_captured(train, device, variants, obstacle):
    for asked in ("off", "auto"):
        settings = TrainSettings(**train, CUDA_GRAPH=asked)
        assert may_capture(settings, device, variants) is (asked == "auto" and obstacle is None)
    insisting = TrainSettings(**train, CUDA_GRAPH="on")
    if obstacle is None:
        assert may_capture(insisting, device, variants)
    else:
        with pytest.raises(ConfigError, match=f"CUDA_GRAPH is on, but .*{obstacle}.*auto or off"):
            may_capture(insisting, device, variants)


class Chance(Forecaster):
    """Drops its body for some samples."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = StochasticDepth([0.3])

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        factors = self.depth(past)
        if factors is not None:
            past = past * factors[0, 0].view(-1, 1, 1, 1)
        return super().forward(past)


def train(
    folder: Path, settings: Any, *, graphed: bool = True, end: str = "finished", **options: Any
) -> Trainer:
    """A whole run on a CPU; its trainer, which has the graphs as ``graphs``."""
    trainer = forecast_trainer(folder, settings, model=Chance, **options)
    if graphed:
        eager, trainer.graphs = trainer.micro_steps, CallGraphs(trainer.model)
        given = (trainer.model, eager._work, trainer.ranks, trainer.optimizer, eager._seed)
        trainer.micro_steps = GraphedMicroSteps(*given, trainer.graphs, lambda step: 0, insist=True)
    assert run(trainer).outcome == end
    return trainer


# Validation after the steps 5, 10 and 12 takes the memory; flow learns after the sixth. All of the
# 24 micro-steps are replayed but those of warm-ups and five that overflow in float16; one that is
# stopped has two warm-ups; a batch of another size begins the warm-up again.
RUNS = {
    "scaled": ({"PRECISION": "16-mixed", "AMP_INIT_SCALE": 2.0**22}, {}, 24 - WARM_UP - 5),
    "averaged": ({"PRECISION": "bf16-mixed", "EMA": 0.9}, {}, 24 - WARM_UP),
    "thawed": ({}, {"frozen_steps": {"inlet": 6}}, 24 - 2 * WARM_UP),
    "stopped": ({}, {}, 24 - 2 * WARM_UP),
    "sizes": ({"MAX_STEPS": 20}, {"samples": 13, "drop_last": False}, 40 - 5 - 6 * WARM_UP),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_same_to_the_last_bit(tmp_path, name):
    keys, options, replays = RUNS[name]
    settings, found = forecast_settings(keys), 0
    train(tmp_path / "eager", settings, graphed=False, **options)
    if name == "stopped":
        task = StopAfter(15, signal.SIGTERM)
        cut = train(tmp_path / "graphed", settings, task=task, end="interrupted")
        found += cut.graphs.replays
    found += train(tmp_path / "graphed", settings, **options).graphs.replays
    assert found == replays
    assert_same(final_state(tmp_path / "eager"), final_state(tmp_path / "graphed"))
    assert records(tmp_path / "eager") == records(tmp_path / "graphed")


def test_replays_are_timed_under_the_names_of_eager_micro_steps(tmp_path):
    trainer = train(tmp_path, forecast_settings(), timing=True)
    sections = trainer.timing.summary()["sections"]
    parts = {"data", "forward", "loss", "backward", "optimizer"}
    assert {f"step/{part}" for part in parts} <= sections.keys()
