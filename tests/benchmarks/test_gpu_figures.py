"""What the parts of ``benchmarks/gpu.py`` find: comparisons, steps, graphs; without a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import gpu_agreement as agreement
import gpu_parts as parts
import gpu_steps as steps
import gpu_training as training
from tests.training.call_graphs import CallGraphs
from vrtspike.training import cuda_graphs

CPU = torch.device("cpu")


@pytest.fixture
def place(tmp_path: Path) -> Any:
    return parts.Place(CPU, str(tmp_path / "golden"))


def found(figures: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    return dict(figures)


def test_a_kernel_that_differs_or_raises_does_not_agree():
    def failing() -> list[float]:
        raise RuntimeError("no kernel image")

    for differences, agrees in (
        ([0.0, 0.9], True),
        ([0.0, 1.1], False),
        ([float("nan"), 0], False),
    ):
        assert agreement.compared(lambda d=differences: d, 1.0)["agrees"] is agrees, differences
    result = agreement.compared(failing, 1.0)
    assert result == {"agrees": False, "reason": "RuntimeError: no kernel image"}


def test_cases_have_the_sizes_of_the_presets():
    gpu = parts.Place(torch.device("cuda"), "nowhere")
    assert gpu.dtype == torch.bfloat16
    cases = {name: run for _, name, run in agreement.cases(gpu, 256)}
    geometry = cases["attention, self, window 6x8x8"].args[2]
    assert (geometry.size, geometry.window) == ((6, 256, 256), (6, 8, 8))
    assert not geometry.mutual
    assert cases["attention, mutual, window 2x8x8"].args[2].mutual
    windows = {run.args[2].window for name, run in cases.items() if name.startswith("attention")}
    assert windows >= {(2, 8, 8), (6, 8, 8), (6, 7, 7), (1, 8, 8), (5, 1, 1)}
    assert {run.args[2] for name, run in cases.items() if name.startswith("feed")} == {96, 120}
    operations = {operation for operation, _, _ in agreement.cases(gpu)}
    assert operations == {operation.name for operation in agreement.OPERATIONS}


def test_launches_of_all_cases_are_compiled_ahead(place, monkeypatch):
    monkeypatch.setattr(agreement, "OPERATIONS", [])
    given: list[Any] = []
    monkeypatch.setattr(agreement, "compile_ahead", lambda launches, _: given.extend(launches))
    figures = found(agreement.compile_kernels(place))
    modules = {launch.module.split(".")[-2] for launch in given}
    assert modules == {"window_attention", "projections", "feed_forward", "deform_conv"}
    assert figures["launches"] == len(given)


@pytest.mark.parametrize("wrong", [None, "output", "gradient"])
def test_golden_values_that_differ_are_seen(place, wrong):
    step = steps.Step(place, "demo")
    vrt = step.model.vrt.eval()  # nothing is dropped at random
    blur = step.clips[0]
    target = torch.rand_like(blur)
    output = vrt(blur)
    (output - target).abs().mean().backward()
    name = "stage1.linear1.weight"
    gradient = dict(vrt.named_parameters())[name].grad.clone()
    tensors = {"t5.input": blur, "t5.target": target, "t5.output": output.detach()}
    tensors[f"t5.grad.{name}"] = gradient
    if wrong == "output":
        tensors["t5.output"] = blur + 1.01 * (output.detach() - blur)
    elif wrong == "gradient":
        tensors[f"t5.grad.{name}"] = gradient.roll(1, 0)
    vrt.zero_grad(set_to_none=True)
    result = agreement.golden_agreement(vrt, tensors, CPU, None)
    assert result["agrees"] is (wrong is None), result["reason"]


def test_without_its_files_golden_does_not_run(place):
    with pytest.raises(parts.NotRun, match=r"no .*vrt_tiny_io\.safetensors"):
        found(agreement.golden(place))


@pytest.mark.parametrize("kind", steps.KINDS)
def test_ways_to_compute_a_step(place, kind):
    model = steps.Step(place, "fast", kind).model
    assert model.vrt.compute.disabled == (frozenset() if kind == "own" else {"all"})
    compiled = any(m._compiled_call_impl is not None for m in model.modules())
    assert compiled == (kind == "torch.compile")


def test_steps_take_turns(monkeypatch):
    monkeypatch.setattr(steps, "now", lambda _: 0.0)
    order: list[str] = []
    ready = {kind: lambda kind=kind: order.append(kind) for kind in "ab"}
    times = steps.take_turns(ready, parts.Place(torch.device("cuda"), "nowhere"))
    # Twice in each turn, of which the second counts.
    assert order == list("aabb") * steps.ROUNDS
    assert [len(times[kind]) for kind in "ab"] == [steps.ROUNDS] * 2


class FakeStep:
    """Fits into memory with at most ``room`` clips."""

    room = 2

    def __init__(
        self, place: Any, preset: str, kind: str = "own", batch: int | None = None
    ) -> None:
        self.batch, self.dtype, self.kind = batch or 4, None, kind
        self.clips = [torch.empty(self.batch, 5)]
        self.model = SimpleNamespace(describe=lambda *_: kind)

    def __call__(self) -> None:
        if self.batch > self.room:
            raise torch.OutOfMemoryError("too many clips")

    def peak(self) -> float:
        return 1.5


def test_clips_that_do_not_fit_are_halved(place, monkeypatch):
    monkeypatch.setattr(steps, "Step", FakeStep)
    for room in (2, 1):
        monkeypatch.setattr(FakeStep, "room", room)
        assert steps.prepare(place, "fast", "fused")[0].batch == room
    monkeypatch.setattr(FakeStep, "room", 0)
    with pytest.raises(torch.OutOfMemoryError):
        steps.prepare(place, "fast", "fused")


def test_speeds_are_medians_and_compared_with_the_preset(place, monkeypatch):
    monkeypatch.setattr(steps, "Step", FakeStep)
    seconds = {"own": [1.0, 9.0, 2.0], "fused": [8.0, 8.0, 0.1]}
    monkeypatch.setattr(steps, "take_turns", lambda ready, _: {k: seconds[k] for k in ready})
    figures = steps.compare(place, "fast", ["fused"])
    assert figures["own"]["clips/s"] == 1.0
    assert figures["own"]["peak GiB"] == 1.5
    assert figures["fused"]["clips/s"] == 0.25
    assert figures["fused"][steps.FASTER] == 4.0
    assert steps.FASTER not in figures["own"]


def test_a_way_that_does_not_fit_or_fails_leaves_the_others(place, monkeypatch):
    def prepare(place: Any, preset: str, kind: str) -> tuple[FakeStep, float]:
        if kind == "definitions":
            raise torch.OutOfMemoryError("much too large")
        if kind == "fused":
            raise ValueError("no such kernel")
        return FakeStep(place, preset, kind, 1), 1.5

    monkeypatch.setattr(steps, "prepare", prepare)
    figures = steps.compare(place, "fast", ["definitions", "fused"])
    assert figures["own"]["clips/s"] > 0
    # Too little memory is a finding, an error a failure.
    assert figures["definitions"]["reason"] == "out of memory"
    assert "agrees" not in figures["definitions"]
    assert figures["fused"]["agrees"] is False


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> CallGraphs:
    """Stands for CUDA graphs: a replay makes the calls of the capture again."""
    graphs = CallGraphs(torch.nn.Identity())
    monkeypatch.setattr(cuda_graphs, "CudaGraphs", lambda *_: graphs)
    return graphs


@pytest.mark.endurance
@pytest.mark.slow
def test_replays_are_compared_with_eager_micro_steps(place, graphs, monkeypatch):
    figures = found(steps.cuda_graph(place))
    assert figures["loss of a replay"]["difference"] < 1e-6
    assert figures["gradient of a replay"]["difference"] < 1e-5
    assert graphs.replays >= 3
    assert set(figures["clips/s"]) == {"eager", "graph", "graph is faster"}
    factors = itertools.cycle((1.0, 1.1))
    gradient_of = steps.gradient_of
    monkeypatch.setattr(steps, "gradient_of", lambda model: next(factors) * gradient_of(model))
    assert not found(steps.cuda_graph(place))["gradient of a replay"]["agrees"]


@pytest.mark.endurance
@pytest.mark.slow
def test_a_resumed_training_goes_on_as_if_nothing_had_happened(place):
    figures = found(training.resume(place))
    assert figures["first loss"] == {"agrees": True, "difference": 0.0, "limit": 0.0}
    assert figures["second loss"]["agrees"]
    assert len(figures["losses"]) == 4


def test_memory_by_category_is_that_of_the_arithmetic(place):
    figures = found(training.memory_categories(place))
    assert figures["categories"]["agrees"]
    assert figures["now"]["gpu"] is None
