"""Estimated times: which limit counts, what an operation costs, and where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from vrtspike.deblurring.models.kernel_trust import triton_runs
from vrtspike.deblurring.models.layers import FrameConv

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def roofline(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import roofline

    return roofline


def test_the_slowest_of_its_parts_is_the_time_of_a_kernel(roofline: ModuleType) -> None:
    kernel, gpu, seconds = roofline.Kernel, roofline.GPUS["H200"], roofline.seconds
    assert seconds(kernel(4.8e9 * 0.83), gpu) == pytest.approx(1e-3)
    assert seconds(kernel(1e3, flops=989e9 * 0.455, arithmetic="half"), gpu) == pytest.approx(1e-3)
    assert seconds(kernel(0, flops=67e9 * 0.67, arithmetic="float32"), gpu) == pytest.approx(1e-3)
    # 132 processors issue 4 instructions in each of 1755 million cycles a second.
    cycles = 132 * 4 * 1.755e6
    issued = cycles * 0.45
    assert seconds(kernel(1e6, issued=lambda: (issued, 0)), gpu) == pytest.approx(1e-3)
    # Of the unit for exponentials one takes eight of them, four lanes for 32 threads.
    special = cycles * 0.6 / 8
    assert seconds(kernel(1e6, issued=lambda: (issued / 2, special)), gpu) == pytest.approx(1e-3)
    assert seconds(kernel(10), gpu) == pytest.approx(1.5e-6)


def test_a_dropped_branch_takes_what_is_left_of_it(roofline: ModuleType) -> None:
    kernel, gpu, launch = roofline.Kernel, roofline.GPUS["H200"], roofline.Launch
    whole = 4.8e9 * 0.83  # bytes of a millisecond
    times = [
        roofline.expected_seconds(launch("", "", kernel(whole, left=left), dropped=0.2), gpu)
        for left in (whole / 4, None)
    ]
    # A quarter in one of five cases; what does not look at factors takes all of its time.
    assert times == pytest.approx([0.8e-3 + 0.2 * 0.25e-3, 1e-3])


def test_launches_of_a_block_have_its_rate(roofline: ModuleType) -> None:
    import step_trace

    from vrtspike.deblurring.models.layers import DropPath

    block, inner = nn.Module(), nn.Linear(2, 2)
    block.drop_path = DropPath(0.3)
    assert step_trace.drop_rate([nn.Module(), block, inner]) == 0.3
    assert step_trace.drop_rate([inner]) == 0.0


def test_eager_steps_wait_for_the_host(roofline: ModuleType) -> None:
    row = {"kernels": 10_000, "ms": {"H200": 100.0, "A6000": 400.0}}
    assert roofline.samples_per_second(row, "H200", graph=True) == pytest.approx(10)
    # 18 microseconds of the host for each kernel.
    assert roofline.samples_per_second(row, "H200", graph=False) == pytest.approx(1 / 0.18)
    assert roofline.samples_per_second(row, "A6000", graph=False) == pytest.approx(2.5)


def kernels(
    roofline: ModuleType, build: Callable[[], nn.Module], *shape: int, grad: bool = True
) -> list:
    import step_trace

    with step_trace.without_gpu():
        with torch.device(step_trace.DEVICE):
            model = build()
            x = torch.randn(*shape, requires_grad=grad)

        def run() -> torch.Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                return model(x).sum()

        return step_trace.trace(model, run, roofline.part_of).launches


def named(launches: list, name: str) -> list:
    return [launch.kernel for launch in launches if launch.operation == f"aten::{name}"]


@pytest.mark.parametrize("channels", [16, 17])
def test_a_convolution_copies_what_is_not_channels_last_in_eights(
    roofline: ModuleType, channels: int
) -> None:
    # FrameConv's operands are channels last.
    launches = kernels(roofline, lambda: FrameConv(channels, 8), 1, 2, 10, 12, channels, grad=False)
    forward = named(launches, "convolution")
    x, out, weight = 2 * 2 * 120 * channels, 2 * 2 * 120 * 8, 2 * 9 * channels * 8
    assert forward[0].moved == x + out + weight
    assert forward[0].flops == 2 * 2 * 120 * 9 * channels * 8
    # Padded to 24 channels, and the bias.
    assert [k.moved for k in forward[1:]] == ([2 * x] if channels == 17 else []) + [2 * out]
    backward = named(launches, "convolution_backward")
    # No gradient of the input is asked for: the weight's and the bias's.
    assert [k.flops for k in backward] == [forward[0].flops, 0] + [0] * (channels == 17)


def test_a_convolution_of_plain_pictures_is_turned(roofline: ModuleType) -> None:
    launches = kernels(roofline, lambda: nn.Conv2d(8, 8, 3, padding=1), 1, 8, 10, 12)
    forward = named(launches, "convolution")
    size = 2 * 120 * 8
    assert sorted(k.moved for k in forward[1:]) == [2 * size, 2 * size, 2 * size]
    assert [bool(k.flops) for k in named(launches, "convolution_backward")[:3]] == [
        True,
        True,
        False,
    ]


def test_views_launch_nothing_and_fills_read_nothing(roofline: ModuleType) -> None:
    class Views(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(-1).unflatten(0, (2, -1)).t() + torch.zeros_like(x)[0, 0]

    launches = kernels(roofline, Views, 10, 10)
    moved = {launch.operation: launch.kernel.moved for launch in launches}
    assert moved["aten::zeros_like"] == 400
    assert moved["aten::add.Tensor"] == 804
    # And the gradient of 1 that the pass begins with; the input's is added to what there is.
    assert set(moved) == {
        "aten::zeros_like",
        "aten::add.Tensor",
        "aten::sum",
        "aten::ones_like",
        "aten::_foreach_add_",
    }


def test_a_product_of_a_broadcast_matrix_reads_it_once(roofline: ModuleType) -> None:
    import operation_costs

    assert operation_costs.size_of(torch.zeros(3, 1).expand(3, 100)) == 12


def test_parts(roofline: ModuleType) -> None:
    class SpyNet(nn.Module):
        pass

    class TMSABlock(nn.Module):
        pass

    class VRT(nn.Module):
        pass

    flow, block, layer, whole = SpyNet(), TMSABlock(), nn.Linear(1, 1), VRT()
    part = roofline.part_of
    assert part([block, layer], "aten::mm") == "matrix products"
    assert part([block, layer], "aten::mm.dtype") == "matrix products"
    assert part([block, layer], "aten::mul.Tensor") == "pointwise in blocks"
    assert part([block], "aten::native_layer_norm_backward") == "layer norms"
    assert part([flow, layer], "aten::mm") == "flow (SpyNet)"
    assert part([], "vrtspike::triton_attention_backward") == "window attention"
    assert part([block], "vrtspike::triton_feed_forward_backward") == "feed-forward layers"
    assert part([whole], "aten::convolution_backward") == "offset convolutions, warping"
    assert part([whole, nn.Conv2d(1, 1, 1)], "aten::convolution") == "the rest"
    assert part([], "aten::mul.Tensor") == "the rest"


@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
def test_what_presets_are_compared_with_is_counted_as_it_is_said(
    roofline: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def counted(settings: Any) -> dict[str, Any]:
        own = triton_runs(torch.device("cuda"), torch.bfloat16)
        seen.append((settings.MODEL.VRT.ATTENTION, settings.MODEL.VRT.RECOMPUTE, own))
        return {}

    monkeypatch.setattr(roofline, "count", counted)
    monkeypatch.setattr(roofline.presets, "write_page", lambda *_: 0)
    (tmp_path / "roofline.json").write_text('{"rows": {}}')
    names = ["fast", "explicit", "definitions"]
    assert roofline.main([*names, "--output", str(tmp_path)]) == 0
    assert seen == [("auto", "auto", True), ("explicit", "none", True), ("explicit", "none", False)]
    assert triton_runs(torch.device("cuda"), torch.bfloat16)
