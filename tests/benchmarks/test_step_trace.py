"""The count of a step without a GPU: what is written down, and the graph walked by hand."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vrtspike.deblurring.models.layers import GEGLU
from vrtspike.deblurring.models.token_ops import normalised_geglu

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def step_trace(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import step_trace

    return step_trace


class Small(nn.Module):
    """A function in Python, a checkpoint, a shared parameter, casts and broadcast biases."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.mlp = GEGLU(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        a = checkpoint(self._again, x, use_reentrant=False)
        b = normalised_geglu(a, None, self.mlp) + normalised_geglu(x, self.norm, self.mlp)
        halves = torch.cat((self.first(b).chunk(2, dim=-1)[0], a[:, :2].double().float()), dim=1)
        return halves.square().mean() + a.sum() * self.first.bias.sum()

    def _again(self, x: Tensor) -> Tensor:
        return torch.tanh(self.first(x)) * x


def test_the_graph_is_walked_as_by_pytorch(step_trace: ModuleType) -> None:
    torch.manual_seed(0)
    model, x = Small(), torch.randn(6, 4, requires_grad=True)
    step_trace.backward(model(x))
    leaves = [x, *model.parameters()]
    found = [leaf.grad for leaf in leaves]
    expected = torch.autograd.grad(model(x), leaves)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_bytes_products_and_parts_of_a_linear_layer(step_trace: ModuleType) -> None:
    rows, width, out = 1000, 8, 24
    with step_trace.without_gpu():
        with torch.device(step_trace.DEVICE):
            model, x = nn.Sequential(nn.Linear(width, out, bias=False)), torch.randn(rows, width)

        def run() -> Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                return model(x).sum()

        traced = step_trace.trace(
            model, run, lambda modules, _: type(modules[-1]).__name__ if modules else "outside"
        )
    products = [x.kernel for x in traced.launches if x.kernel.flops]
    moved = 2 * (rows * width + width * out + rows * out)
    # Forward, and the weight's gradient; the input needs none.
    assert [(k.moved, k.flops, k.arithmetic) for k in products] == [
        (moved, 2.0 * rows * width * out, "half")
    ] * 2
    assert {x.part for x in traced.launches if x.kernel.flops} == {"Linear"}
    # The rounded input is kept for the weight's gradient (the rounded weight by autocast itself).
    assert traced.kept == 2 * rows * width + 4  # and the sum
    weights = 4 * width * out
    assert traced.peak >= weights + traced.kept


def test_what_is_freed_does_not_count(step_trace: ModuleType) -> None:
    size = 1 << 20

    def peak(layers: int) -> int:
        with step_trace.without_gpu():
            with torch.device(step_trace.DEVICE):
                scale = nn.Parameter(torch.ones(1))
                model = nn.ParameterList([scale])
                x = torch.randn(size)

            def run() -> Tensor:
                y = x * scale
                for _ in range(layers):
                    y = y + 1
                return y.sum()

            return step_trace.trace(model, run, lambda *_: "").peak

    assert peak(20) == peak(2)


def test_a_checkpoint_keeps_less_and_launches_more(step_trace: ModuleType) -> None:
    def traced(again: bool) -> object:
        with step_trace.without_gpu():
            with torch.device(step_trace.DEVICE):
                layers = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))
                x = torch.randn(4096, 16, requires_grad=True)

            def run() -> Tensor:
                return (checkpoint(layers, x, use_reentrant=False) if again else layers(x)).sum()

            return step_trace.trace(layers, run, lambda *_: "")

    plain, again = traced(False), traced(True)
    assert again.kept < plain.kept / 4
    products = [sum(bool(x.kernel.flops) for x in t.launches) for t in (plain, again)]
    # The last layer's result is not needed again.
    assert products == [6 + 12, 6 + 5 + 12]


def operations(step_trace: ModuleType, build: object) -> list:
    with step_trace.without_gpu():
        with torch.device(step_trace.DEVICE):
            model, run = build()
        return step_trace.trace(model, run, lambda _, name: name).launches


def test_what_was_made_last_goes_first(step_trace: ModuleType) -> None:
    def build() -> object:
        x = torch.randn(8, requires_grad=True)
        return nn.Module(), lambda: (x.exp() + x.tanh()).sum()

    names = [launch.operation for launch in operations(step_trace, build)]
    # The gradient of exp is a product with its result.
    assert names.index("aten::tanh_backward") < names.index("aten::mul.Tensor")


def test_gradients_are_added_to_those_of_the_micro_steps_before(step_trace: ModuleType) -> None:
    def build() -> object:
        layers = nn.ModuleList([nn.Linear(8, 24, bias=False) for _ in range(70)])
        x = torch.randn(5, 8)
        return layers, lambda: sum(layer(x).sum() for layer in layers)

    launches = operations(step_trace, build)
    # As lists of 64 at most.
    added = [x for x in launches if x.operation == "aten::_foreach_add_"]
    assert [x.kernel.moved for x in added] == [3 * 4 * 8 * 24 * 64, 3 * 4 * 8 * 24 * 6]
    assert not any(x.operation.startswith("aten::add_") for x in launches)


def test_convolutions_of_float32_are_made_in_tf32_and_products_in_full(
    step_trace: ModuleType,
) -> None:
    def build() -> object:
        model, x = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Linear(6, 6)), torch.randn(1, 4, 8, 8)
        return model, lambda: model(x).sum()

    kinds = {
        launch.operation: launch.kernel.arithmetic
        for launch in operations(step_trace, build)
        if launch.kernel.flops
    }
    assert kinds.pop("aten::convolution") == "tf32"
    assert kinds.pop("aten::convolution_backward") == "tf32"
    assert set(kinds.values()) == {"float32"}


def test_plans_that_a_model_keeps_are_no_part_of_a_step(step_trace: ModuleType) -> None:
    from vrtspike.deblurring.models import windows

    with step_trace.without_gpu():
        x = torch.ones(4, device=step_trace.DEVICE, requires_grad=True)

        def run() -> Tensor:
            geometry = windows.clip_window((2, 8, 8), (2, 4, 4), shifted=True, mutual=False)
            plan = windows.build_plan(geometry, step_trace.DEVICE)
            assert plan.query.is_cuda
            return (x * 2).sum()

        traced = step_trace.trace(nn.Module(), run, lambda _, name: name)
    found = [launch.operation for launch in traced.launches]
    assert found[:2] == ["aten::mul.Tensor", "aten::sum"]
    assert not any("copy" in name or "ne." in name for name in found)
