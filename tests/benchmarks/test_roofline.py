"""Estimated times: which limit counts, what an operation costs, and where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import roofline
import step_trace
from vrtspike.deblurring.models.layers import FrameConv
from vrtspike.deblurring.models.ops.dispatch import disabled_by_environment
from vrtspike.deblurring.models.stochastic_depth import StochasticDepth
from vrtspike.deblurring.models.vrt import VRT


def test_the_slowest_of_its_parts_is_the_time_of_a_kernel() -> None:
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


def test_a_dropped_branch_takes_what_is_left_of_it() -> None:
    kernel, gpu, launch = roofline.Kernel, roofline.GPUS["H200"], roofline.Launch
    whole = 4.8e9 * 0.83  # bytes of a millisecond
    times = [
        roofline.expected_seconds(launch("", "", kernel(whole, left=left), dropped=0.2), gpu)
        for left in (whole / 4, None)
    ]
    # A quarter in one of five cases; what does not look at factors takes all of its time.
    assert times == pytest.approx([0.8e-3 + 0.2 * 0.25e-3, 1e-3])


def test_launches_of_a_block_have_its_rate() -> None:
    vrt = VRT(
        img_size=(2, 16, 16), window_size=(2, 4, 4), depths=(1,) * 7 + (1,), indep_reconsts=(),
        embed_dims=(16,) * 8, num_heads=(2,) * 8, pa_frames=0, drop_path_rate=0.2,
    )  # fmt: skip
    rates = step_trace.drop_rates(vrt)
    depth = next(module for module in vrt.modules() if isinstance(module, StochasticDepth))
    assert list(rates.values()) == list(depth.rates)
    assert max(depth.rates) > 0
    assert step_trace.drop_rates(nn.Linear(2, 2)) == {}


def kernels(build: Callable[[], nn.Module], *shape: int, grad: bool = True) -> list:
    with step_trace.without_gpu() as mode:
        with torch.device(step_trace.DEVICE):
            model = build()
            x = torch.randn(*shape, requires_grad=grad)

        def run() -> torch.Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                return model(x).sum()

        return step_trace.trace(mode, model, run, roofline.part_of).launches


def named(launches: list, name: str) -> list:
    return [launch.kernel for launch in launches if launch.operation == f"aten::{name}"]


@pytest.mark.parametrize("channels", [16, 17])
def test_a_convolution_copies_what_is_not_channels_last_in_eights(channels: int) -> None:
    # FrameConv's operands are channels last.
    launches = kernels(lambda: FrameConv(channels, 8), 1, 2, 10, 12, channels, grad=False)
    forward = named(launches, "convolution")
    x, out, weight = 2 * 2 * 120 * channels, 2 * 2 * 120 * 8, 2 * 9 * channels * 8
    assert forward[0].moved == x + out + weight
    assert forward[0].flops == 2 * 2 * 120 * 9 * channels * 8
    # Padded to 24 channels, and the bias.
    assert [k.moved for k in forward[1:]] == ([2 * x] if channels == 17 else []) + [2 * out]
    backward = named(launches, "convolution_backward")
    # No gradient of the input is asked for: the weight's and the bias's.
    assert [k.flops for k in backward] == [forward[0].flops, 0] + [0] * (channels == 17)


@pytest.mark.parametrize(
    ("modules", "operation", "part"),
    [
        (("TMSABlock", "Linear"), "aten::mm.dtype", "matrix products"),
        (("TMSABlock", "Linear"), "aten::mul.Tensor", "pointwise in blocks"),
        (("TMSABlock",), "aten::native_layer_norm_backward", "layer norms"),
        (("SpyNet", "Linear"), "aten::mm", "flow (SpyNet)"),
        ((), "ops.window_attention.gradient_kernel", "window attention"),
        (("Conv2d",), "aten::convolution", "the rest"),
    ],
)
def test_parts(modules: tuple[str, ...], operation: str, part: str) -> None:
    around = [type(name, (nn.Module,), {})() for name in modules]
    assert roofline.part_of(around, operation) == part


def test_what_presets_are_compared_with_is_counted_as_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def counted(settings: Any, **_: Any) -> dict[str, Any]:
        vrt = settings.MODEL.VRT
        seen.append((vrt.ATTENTION, vrt.RECOMPUTE, disabled_by_environment()))
        return {}

    monkeypatch.setattr(roofline, "count", counted)
    monkeypatch.setattr(roofline.presets, "write_page", lambda *_: 0)
    (tmp_path / "roofline.json").write_text('{"rows": {}}')
    names = ["fast", "explicit", "definitions", "rival"]
    assert roofline.main([*names, "--output", str(tmp_path)]) == 0
    none, every = frozenset(), frozenset({"all"})
    assert seen == [
        ("auto", "auto", none),
        ("explicit", "none", none),
        ("explicit", "none", every),
        ("fused", "none", every),
    ]
    assert not disabled_by_environment()
