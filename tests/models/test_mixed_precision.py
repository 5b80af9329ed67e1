"""Values that stay in float32 under autocast."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from vrtspike.models.mixed_precision import residual_stream
from vrtspike.models.stages import ReconstructionGroup, TMSABlock, TMSAGroup
from vrtspike.models.vrt import VRT

Build = Callable[..., VRT]
HALF = (torch.bfloat16, torch.float16)


def moving_flow(spynet: nn.Module) -> None:
    """Random weights in the layers that start at zero: corrections of about a pixel a level."""
    for level in spynet.basic_module:
        layers = [m for m in level.modules() if isinstance(m, nn.Conv2d)]
        for layer in layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        with torch.no_grad():
            layers[-1].weight *= 0.5


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("recomputed", [False, True])
def test_every_sum_of_the_residual_stream_is_float32(
    small_vrt: Build, dtype: torch.dtype, recomputed: bool
) -> None:
    vrt = small_vrt(use_checkpoint_attn=recomputed, use_checkpoint_ffn=recomputed)
    types: dict[str, set[torch.dtype]] = {}

    def watch(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            types.setdefault(name, set()).update((inputs[0].dtype, output.dtype))

        return hook

    for name, module in vrt.named_modules():
        if isinstance(module, TMSABlock | TMSAGroup | ReconstructionGroup):
            module.register_forward_hook(watch(name))
    fused: list[torch.dtype] = []

    def fuse(_: int, x: Tensor) -> Tensor:
        fused.append(x.dtype)
        return x

    with torch.autocast("cpu", dtype):
        vrt(torch.rand(1, 2, 3, 8, 8), fuse)
    assert {name.partition(".")[0] for name in types} == {f"stage{n}" for n in range(1, 9)}
    assert all(dtypes == {torch.float32} for dtypes in types.values()), types
    assert fused == [torch.float32] * 4


def test_types_stay_outside_of_autocast() -> None:
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        x = torch.zeros(1, dtype=dtype)
        assert residual_stream(x) is x
    with torch.autocast("cpu", torch.bfloat16):
        assert residual_stream(torch.zeros(1, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize("dtype", HALF)
def test_flow_under_autocast_is_that_of_float32(small_vrt: Build, dtype: torch.dtype) -> None:
    vrt = small_vrt()
    moving_flow(vrt.spynet)
    x = torch.rand(1, 3, 3, 40, 64)
    with torch.no_grad():
        expected = vrt.estimate_flows(x)
        with torch.autocast("cpu", dtype):
            result = vrt.estimate_flows(x)
            # Pictures of half precision, too: the weights say the type.
            from_half = vrt.estimate_flows(x.to(dtype))
    assert expected[0][0].abs().max() > 2
    assert all(torch.equal(one, other) for one, other in zip(expected, result, strict=True))
    assert {flow.dtype for flow in from_half} == {torch.float32}
