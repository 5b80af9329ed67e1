"""Which micro-steps are run and which replayed, and when a recording is not trusted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.operations import Operations
from tests.training.recorders import CallRecorder, CallRecording
from vrtspike.errors import RunError
from vrtspike.training import step_graph
from vrtspike.training.gradients import FlatGradients
from vrtspike.training.step_graph import WARM_UP, StepGraphs, Terms


class Bench:
    """A linear model with noise, its gradients, and micro-steps that may be recorded."""

    def __init__(self, recorder: CallRecorder | None = None, *, insist: bool = False) -> None:
        torch.manual_seed(1)
        self.model = nn.Linear(3, 1)
        self.recorder = recorder or CallRecorder()
        self.graphs = StepGraphs(
            self.work,
            self.recorder,
            torch.manual_seed,
            lambda step: step % self.variants,
            tolerance=1e-3,
            insist=insist,
        )
        self.variants = 1
        self.count, constant = torch.zeros(()), torch.ones(1).expand(3)
        self.graphs._buffers = [self.count, constant]
        self.ran = 0
        self.model(torch.ones(1, 3)).sum().backward()
        self.gradients = FlatGradients(self.model.parameters())
        self.gradients.zero()

    def work(self, batch: Any, step: int) -> Terms:
        self.ran += 1
        self.count += 1
        x = batch["x"]
        loss = (self.model(x) * torch.rand(len(x), 1)).square().mean() * (1 + step % 2)
        loss.backward()
        return {"loss": loss.detach(), "double": 2 * loss.detach()}

    def __call__(self, number: int, size: int = 2, step: int = 0, **parts: Any) -> Terms:
        batch = {"x": torch.full((size, 3), 1.0 + number)} | parts
        return self.graphs(batch, number, step, self.gradients)

    def expected(self, numbers: list[int], size: int = 2) -> tuple[list[float], torch.Tensor]:
        """The losses and the sum of the gradients of micro-batches, run one after another."""
        other = Bench()
        losses = []
        for number in numbers:
            torch.manual_seed(number)
            losses.append(float(other.work({"x": torch.full((size, 3), 1.0 + number)}, 0)["loss"]))
        return losses, other.model.weight.grad


def test_results_are_those_of_running(recwarn):
    bench, numbers = Bench(), list(range(8))
    losses = [bench(number)["loss"] for number in numbers]
    expected, gradient = bench.expected(numbers)
    assert [float(loss) for loss in losses] == expected
    torch.testing.assert_close(bench.model.weight.grad, gradient)
    assert bench.recorder.recordings == 1
    assert bench.count == 8
    # The fourth is run and replayed, the others after it are only replayed.
    assert bench.recorder.replays == 8 - WARM_UP
    assert bench.ran == WARM_UP + 1 + bench.recorder.replays
    assert not recwarn.list


def test_gradients_are_added_all_at_once():
    bench = Bench()
    for number in range(WARM_UP):
        bench(number)
    # Run and recorded, then replayed.
    for number in range(WARM_UP, WARM_UP + 2):
        with Operations() as seen:
            bench(number)
        added = [name for name in seen.names if "add_" in name]
        assert set(added) == {"_foreach_add_", "add_"}
        # The batches that were counted; no gradient.
        assert added.count("add_") == seen.names.count("rand")


def test_gradients_without_a_place_are_never_recorded():
    bench = Bench()
    for number in range(6):
        bench.graphs({"x": torch.ones(2, 3)}, number, 0, None)
    assert bench.recorder.recordings == 0


def test_another_size_is_run_and_memory_freed_before():
    bench = Bench()
    for number in range(5):
        bench(number)
    assert (bench.recorder.replays, bench.recorder.releases) == (2, 0)
    loss = bench(5, size=1)["loss"]
    assert (bench.recorder.replays, bench.recorder.releases) == (2, 1)
    assert float(loss) == bench.expected([5], size=1)[0][0]
    # The first size is known: it is recorded again without another trial.
    ran = bench.ran
    bench(6)
    assert (bench.recorder.recordings, bench.recorder.replays) == (2, 3)
    assert bench.ran == ran + 1


def test_two_kinds_of_steps_are_recorded_side_by_side():
    bench = Bench()
    bench.variants = 2
    for number in range(40):
        found = bench(number, step=number)["loss"]
        torch.manual_seed(number)
        expected = bench.work({"x": torch.full((2, 3), 1.0 + number)}, number)["loss"]
        assert float(found) == float(expected)
    last = bench.recorder.recordings
    assert last <= 4
    for number in range(10):
        bench(number, step=number)
    assert bench.recorder.recordings == last


def test_after_forgetting_all_begins_anew():
    bench = Bench()
    for number in range(6):
        bench(number)
    bench.graphs.forget()
    assert bench.recorder.releases == 1
    ran, replays = bench.ran, bench.recorder.replays
    for number in range(WARM_UP):
        bench(number)
    assert (bench.ran, bench.recorder.replays) == (ran + WARM_UP, replays)


def test_a_rest_frees_memory_and_costs_no_other_trial(monkeypatch):
    monkeypatch.setattr(step_graph, "MAX_RECORDINGS", 2)
    bench = Bench()
    for number in range(6):
        bench(number)
    for number in range(6, 10):
        bench.graphs.rest()
        ran, replays = bench.ran, bench.recorder.replays
        assert float(bench(number)["loss"]) == bench.expected([number])[0][0]
        assert (bench.ran, bench.recorder.replays) == (ran + 1, replays + 1)
    assert (bench.recorder.recordings, bench.recorder.releases) == (5, 4)
    assert bench.graphs.fault is None


def test_a_batch_that_holds_what_cannot_be_seen_is_run():
    bench = Bench()
    for number in range(6):
        bench(number, other=object())
    assert bench.recorder.recordings == 0
    assert bench.ran == 6


def test_what_the_work_puts_into_a_batch_is_not_copied_into_the_next():
    bench = Bench()
    work = bench.work

    def adding(batch: Any, step: int) -> Terms:
        terms = work(batch, step)
        batch["guide"] = batch["x"] * 2
        return terms

    bench.graphs._work = adding
    losses = [float(bench(number)["loss"]) for number in range(7)]
    assert losses == bench.expected(list(range(7)))[0]
    assert bench.recorder.replays == 7 - WARM_UP


def test_work_that_reads_what_it_writes_is_tried_from_the_same_state(recwarn):
    bench = Bench()
    work = bench.work
    bench.graphs._work = lambda batch, step: {**work(batch, step), "count": bench.count.clone()}
    assert [float(bench(number)["count"]) for number in range(6)] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert bench.recorder.replays == 3
    assert not recwarn.list


class Refusing(CallRecorder):
    def record(self, work: Callable[[], Terms]) -> CallRecording:
        work()  # What was done so far does not count.
        raise MemoryError("no room")


class Breaking(CallRecorder):
    """Whatever fails while a device records, the end of the recording fails as well."""

    def record(self, work: Callable[[], Terms]) -> CallRecording:
        try:
            raise ValueError("a copy waits for the host")
        except ValueError:
            raise RuntimeError("the recording was broken by an earlier error") from None


class Stale(CallRecorder):
    """Draws at a replay what it drew when it recorded."""

    def record(self, work: Callable[[], Terms]) -> CallRecording:
        state = torch.get_rng_state()
        return super().record(lambda: torch.set_rng_state(state) or work())


class Twice(CallRecorder):
    def record(self, work: Callable[[], Terms]) -> CallRecording:
        return super().record(lambda: work() and work())


class Half(CallRecorder):
    """Gradients are right, terms are not."""

    def record(self, work: Callable[[], Terms]) -> CallRecording:
        return super().record(lambda: {name: term / 2 for name, term in work().items()})


class Renaming(CallRecorder):
    def record(self, work: Callable[[], Terms]) -> CallRecording:
        return super().record(lambda: {f"{name}s": term for name, term in work().items()})


class Spoiling(CallRecorder):
    """One term is no number, which compares with none."""

    def record(self, work: Callable[[], Terms]) -> CallRecording:
        return super().record(lambda: {**work(), "double": torch.tensor(torch.nan)})


class FailingReplay(CallRecorder):
    def record(self, work: Callable[[], Terms]) -> CallRecording:
        def fail() -> Terms:
            work()
            raise RuntimeError("lost")

        return super().record(fail)


FAULTS = {
    Refusing: "MemoryError: no room",
    Breaking: "ValueError: a copy waits for the host",
    Stale: "differ from those of launched kernels",
    Twice: "differ from those of launched kernels",
    Half: "differ from those of launched kernels by 5.0e-01",
    Renaming: "differ from those of launched kernels by inf",
    Spoiling: "differ from those of launched kernels by nan",
    FailingReplay: "RuntimeError: lost",
}


@pytest.mark.parametrize("recorder", FAULTS, ids=lambda kind: kind.__name__)
def test_a_recording_that_is_wrong_is_not_used_and_one_warning_says_so(recorder):
    bench, numbers = Bench(recorder()), list(range(9))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        losses = [float(bench(number)["loss"]) for number in numbers]
    expected, gradient = bench.expected(numbers)
    assert losses == expected
    assert bench.count == len(numbers)
    torch.testing.assert_close(bench.model.weight.grad, gradient)
    (warning,) = caught
    assert FAULTS[recorder] in str(warning.message)
    assert "TRAIN.CUDA_GRAPH: off" in str(warning.message)


@pytest.mark.parametrize("recorder", FAULTS, ids=lambda kind: kind.__name__)
def test_it_is_an_error_where_the_settings_insist(recorder):
    bench = Bench(recorder(), insist=True)
    for number in range(WARM_UP):
        bench(number)
    with pytest.raises(RunError, match=FAULTS[recorder] + ".*Set it to auto or off"):
        bench(WARM_UP)


def test_a_recording_that_failed_gives_its_memory_back_before_the_batch_is_run():
    events: list[str] = []

    class Watched(Breaking):
        def release(self) -> None:
            events.append("released")

        def beside(self) -> AbstractContextManager[None]:
            events.append("run")
            return super().beside()

    bench = Bench(Watched())
    for number in range(WARM_UP):
        bench(number)
    events.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bench(WARM_UP)
        bench(WARM_UP + 1)
    # The trial's own run comes before the recording that fails.
    assert events == ["run", "released", "run"]


def test_an_overflow_tells_nothing_and_the_next_batch_is_tried():
    bench = Bench()
    for number in range(WARM_UP):
        bench(number)
    before = bench.gradients.copy()
    assert not torch.isfinite(bench(0, x=torch.full((2, 3), 1e30))["loss"])
    assert bench.recorder.recordings == 0
    bench.gradients.zero()
    bench.gradients.add(before)
    bench(WARM_UP)
    assert bench.recorder.replays == 1


def test_recording_again_and_again_ends(monkeypatch):
    monkeypatch.setattr(step_graph, "MAX_RECORDINGS", 3)
    bench = Bench()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(60):
            bench(number, size=1 + number % 5)
    assert "3 recordings were made, batches change too often" in str(caught[0].message)
    assert len(caught) == 1
    assert bench.recorder.recordings == 3
    ran = bench.ran
    bench(0)
    assert bench.ran == ran + 1
