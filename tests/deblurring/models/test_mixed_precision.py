"""What stays in float32 under autocast."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.flow import SpyNet
from vrtspike.deblurring.models.layers import GEGLU
from vrtspike.deblurring.models.mixed_precision import product_over_rows, residual_stream
from vrtspike.deblurring.models.stages import ReconstructionGroup, Stage
from vrtspike.deblurring.models.tmsa import TMSABlock, TMSAGroup
from vrtspike.deblurring.models.token_ops import normalised_geglu, normalised_linear
from vrtspike.deblurring.models.vrt import VRT

Build = Callable[..., VRT]
HALF = (torch.bfloat16, torch.float16)
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        ],
    ),
]


def moving_flow(spynet: SpyNet) -> None:
    """Random weights in the layers that start at zero: corrections of about a pixel a level."""
    for level in spynet.basic_module:
        layers = [m for m in level.modules() if isinstance(m, nn.Conv2d)]
        for layer in layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        with torch.no_grad():
            layers[-1].weight *= 0.5


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_every_sum_of_the_residual_stream_is_float32(
    small_vrt: Build, dtype: torch.dtype, checkpointed: bool
) -> None:
    vrt = small_vrt(use_checkpoint_attn=checkpointed, use_checkpoint_ffn=checkpointed)
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
    assert all(found == {torch.float32} for found in types.values()), types
    assert fused == [torch.float32] * 4


@pytest.mark.parametrize("frames", [1, 3])
def test_a_stage_takes_and_gives_the_stream(small_vrt: Build, frames: int) -> None:
    # Also where one frame leaves the alignment nothing to align.
    stage = small_vrt().stage1
    assert isinstance(stage, Stage)
    x, flow = torch.rand(1, frames, 8, 8, 8), torch.zeros(1, frames - 1, 2, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        attended = stage.attend(x.bfloat16())
        assert attended.dtype == torch.float32
        assert stage.align(attended, flow, flow).dtype == torch.float32


def test_the_alignment_keeps_features_of_half_precision(small_vrt: Build) -> None:
    stage = small_vrt(recompute="none").stage1
    assert isinstance(stage, Stage)
    x = torch.rand(1, 3, 8, 8, 8)
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    flow = torch.zeros(1, 2, 2, 8, 8)
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16):
        stage.align(x, flow, flow)
    own = {p.untyped_storage().data_ptr() for p in stage.parameters()}
    features = [t for t in kept if t.numel() >= x.numel() and t.data_ptr() not in own]
    assert features
    assert {t.dtype for t in features} <= {torch.bfloat16}


def test_outside_of_autocast_types_stay() -> None:
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
        expected = vrt.flows(x)
        with torch.autocast("cpu", dtype):
            found = vrt.flows(x)
            # Pictures of half precision, too: the weights say the type.
            from_half = vrt.flows(x.to(dtype))
    assert expected[0][0].abs().max() > 2
    for one, other in zip(expected[0] + expected[1], found[0] + found[1], strict=True):
        assert torch.equal(one, other)
    assert {flow.dtype for flow in from_half[0] + from_half[1]} == {torch.float32}


def test_displacements_of_half_precision_weights_are_float32() -> None:
    torch.manual_seed(0)
    spynet = SpyNet().bfloat16()
    # The first level, the coarsest, moves by an odd fraction of a pixel and no other one does:
    # 1.2265625, 32 times as far at full size, where bfloat16 has steps of a quarter of a pixel.
    with torch.no_grad():
        coarsest = spynet.basic_module[0].basic_module
        coarsest[-1].bias.copy_(torch.tensor([1.2265625, -1.2265625]))
        flow = spynet(torch.rand(1, 3, 64, 64).bfloat16(), torch.rand(1, 3, 64, 64).bfloat16())
    assert flow[0].dtype == torch.float32
    torch.testing.assert_close(flow[0][0, 0], torch.full((64, 64), 39.25))
    torch.testing.assert_close(flow[2][0, 1], torch.full((16, 16), -39.25 / 4))


def equal_rows(device: str) -> Tensor:
    """Many equal tokens: all of them say the same about a weight, a little each.

    Layers are 12 wide: pieces then have 21,845 rows, so that their sums do not round as one row.
    """
    torch.manual_seed(0)
    return torch.randn(1, 1, 8, device=device).expand(1, 300_000, 8).contiguous()


def check_gradients(
    layer: Callable[[Tensor], Tensor], x: Tensor, own: nn.Module, norm: nn.Module | None
) -> None:
    """Gradients over all rows are those of one row times their number."""
    # Kernels add the thousands of rows of a piece in a plain float32, some of them one by one:
    # equal terms are then off by 2e-4. Sums of a half type would be off by more than 1e-3.
    parameters, tolerance = [*own.parameters(), *(norm.parameters() if norm else ())], 1e-3
    rows = x.shape[1]
    with torch.autocast(x.device.type, torch.bfloat16):
        one = layer(x[:, :1])
        found = layer(x)
    share = torch.full_like(one, 0.01)
    single = torch.autograd.grad(one, parameters, share)
    whole = torch.autograd.grad(found, parameters, share.expand_as(found))
    for a, b in zip(single, whole, strict=True):
        error = (rows * a.double() - b.double()).norm() / (rows * a.double()).norm()
        assert error < tolerance
        assert b.dtype == torch.float32


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("coded", [False, True])
def test_weights_of_a_projection_sum_over_rows_in_float32(device: str, coded: bool) -> None:
    x = equal_rows(device)
    norm, layer = nn.LayerNorm(8).to(device), nn.Linear(8, 12).to(device)
    code = torch.randn(1, 8, device=device) if coded else None
    check_gradients(
        lambda t: normalised_linear(t, norm, layer, code, t.shape[1]),
        x,
        layer,
        norm,
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("normalised", [False, True])
def test_weights_of_a_feed_forward_layer_sum_over_rows_in_float32(
    device: str, normalised: bool
) -> None:
    x = equal_rows(device)
    norm = nn.LayerNorm(8).to(device) if normalised else None
    mlp = GEGLU(8, 12).to(device)
    check_gradients(lambda t: normalised_geglu(t, norm, mlp), x, mlp, norm)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64])
def test_product_over_rows_is_that_of_float64(device: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(5000, 3).to(dtype), torch.randn(5000, 7).to(dtype)
    sums = torch.promote_types(dtype, torch.float32)
    found = product_over_rows(left.to(device), right.to(device), sums)
    assert found.dtype == sums
    torch.testing.assert_close(
        found.cpu().double(), left.double().T @ right.double(), rtol=1e-4, atol=1e-3
    )
