"""The count of a step without a GPU: what is written down, and the graph walked by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import step_trace
from vrtspike.deblurring.models.layers import ResidualGEGLU
from vrtspike.deblurring.models.ops.dispatch import Compute
from vrtspike.deblurring.models.ops.window_attention import windows
from vrtspike.deblurring.models.ops.window_attention.pytorch_attention import sdpa_attention
from vrtspike.deblurring.models.ops.window_attention.windows import clip_window


class Small(nn.Module):
    """A function in Python, a checkpoint, a shared parameter, casts and broadcast biases."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.mlp = ResidualGEGLU(4, 8, compute=Compute())

    def forward(self, x: Tensor) -> Tensor:
        a = checkpoint(self._again, x, use_reentrant=False)
        b = a + self.mlp(x, self.norm)
        halves = torch.cat((self.first(b).chunk(2, dim=-1)[0], a[:, :2].double().float()), dim=1)
        return halves.square().mean() + a.sum() * self.first.bias.sum()

    def _again(self, x: Tensor) -> Tensor:
        return torch.tanh(self.first(x)) * x


def test_the_graph_is_walked_as_by_pytorch() -> None:
    torch.manual_seed(0)
    model, x = Small(), torch.randn(6, 4, requires_grad=True)
    step_trace.backward(model(x))
    leaves = [x, *model.parameters()]
    found = [leaf.grad for leaf in leaves]
    expected = torch.autograd.grad(model(x), leaves)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_bytes_products_and_parts_of_a_linear_layer() -> None:
    rows, width, out = 1000, 8, 24
    with step_trace.without_gpu() as mode:
        with torch.device(step_trace.DEVICE):
            model, x = nn.Sequential(nn.Linear(width, out, bias=False)), torch.randn(rows, width)

        def run() -> Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                return model(x).sum()

        traced = step_trace.trace(
            mode,
            model,
            run,
            lambda modules, _: type(modules[-1]).__name__ if modules else "outside",
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


def test_what_is_freed_does_not_count() -> None:
    size = 1 << 20

    def peak(layers: int) -> int:
        with step_trace.without_gpu() as mode:
            with torch.device(step_trace.DEVICE):
                scale = nn.Parameter(torch.ones(1))
                model = nn.ParameterList([scale])
                x = torch.randn(size)

            def run() -> Tensor:
                y = x * scale
                for _ in range(layers):
                    y = y + 1
                return y.sum()

            return step_trace.trace(mode, model, run, lambda *_: "").peak

    assert peak(20) == peak(2)


def test_a_checkpoint_keeps_less_and_launches_more() -> None:
    def traced(again: bool) -> object:
        with step_trace.without_gpu() as mode:
            with torch.device(step_trace.DEVICE):
                layers = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))
                x = torch.randn(4096, 16, requires_grad=True)

            def run() -> Tensor:
                return (checkpoint(layers, x, use_reentrant=False) if again else layers(x)).sum()

            return step_trace.trace(mode, layers, run, lambda *_: "")

    plain, again = traced(False), traced(True)
    assert again.kept < plain.kept / 4
    products = [sum(bool(x.kernel.flops) for x in t.launches) for t in (plain, again)]
    # The last layer's result is not needed again.
    assert products == [6 + 12, 6 + 5 + 12]


@pytest.mark.parametrize(("width", "is_fused"), [(16, True), (20, False)])
def test_pytorch_s_attention_is_that_which_it_chooses_on_a_gpu(width: int, is_fused: bool) -> None:
    heads, windows_, tokens = 2, 4, 32
    with step_trace.without_gpu() as mode:
        geometry = clip_window((2, 8, 8), (2, 4, 4), shifted=False, mutual=False)
        plan = windows.build_plan(geometry, step_trace.DEVICE)
        with torch.device(step_trace.DEVICE):
            shape = (1, windows_ * tokens, 3 * heads * width)
            qkv = torch.randn(shape, dtype=torch.bfloat16, requires_grad=True)
            bias = torch.randn(heads, tokens, tokens, requires_grad=True)

        def run() -> Tensor:
            return sdpa_attention(qkv, bias, plan, heads).float().sum()

        launches = step_trace.trace(mode, nn.Module(), run, lambda _, name: name).launches
    found = {x.operation: x.kernel.flops for x in launches if "efficient" in x.operation}
    product = 2.0 * windows_ * heads * tokens**2 * width
    name = "aten::_scaled_dot_product_efficient_attention"
    assert found == ({name: 2 * product, f"{name}_backward": 5 * product} if is_fused else {})
    # Else all scores are written out.
    assert any(x.operation == "aten::_safe_softmax" for x in launches) == (not is_fused)
