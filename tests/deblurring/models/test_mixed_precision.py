"""What stays in float32 under autocast."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.layers import GEGLU
from vrtspike.deblurring.models.mixed_precision import product_over_rows, residual_stream
from vrtspike.deblurring.models.ops.dispatch import Compute
from vrtspike.deblurring.models.ops.feed_forward import geglu
from vrtspike.deblurring.models.ops.feed_forward.recompute import recomputed_geglu
from vrtspike.deblurring.models.ops.projections import norm_linear
from vrtspike.deblurring.models.stages import ReconstructionGroup
from vrtspike.deblurring.models.tmsa import TMSABlock, TMSAGroup
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


def moving_flow(spynet: nn.Module) -> None:
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


def equal_rows() -> Tensor:
    """Many equal tokens: all of them say the same about a weight, a little each.

    Layers are 12 wide: pieces then have 21,845 rows, so that their sums do not round as one row.
    """
    torch.manual_seed(0)
    return torch.randn(1, 1, 8).expand(1, 300_000, 8).contiguous()


def check_gradients(
    layer: Callable[[Tensor], Tensor],
    x: Tensor,
    own: nn.Module,
    norm: nn.Module | None,
    tolerance: float = 1e-3,
) -> None:
    """Gradients over all rows are those of one row times their number."""
    # Kernels add the thousands of rows of a piece in a plain float32, some of them one by one:
    # equal terms are then off by 2e-4. Sums of a half type would be off by more than 1e-3.
    parameters = [*own.parameters(), *(norm.parameters() if norm else ())]
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


@pytest.mark.parametrize("kind", ["projection", "geglu", "feed-forward"])
def test_weights_of_layers_sum_over_rows_in_float32(kind: str) -> None:
    x = equal_rows()
    norm, layer = nn.LayerNorm(8), nn.Linear(8, 12)
    mlp = GEGLU(8, 12, compute=Compute(recompute="cheap"))
    layers, dtype = mlp.layers, torch.bfloat16
    if kind == "projection":
        # PyTorch's own layers round the sum once; sums in a half type would be far off.
        check_gradients(lambda t: norm_linear(t, norm, layer, Compute())[1], x, layer, norm, 5e-3)
    elif kind == "geglu":
        check_gradients(lambda t: geglu(t, layers, mlp.compute), x, mlp, None)
    else:
        check_gradients(lambda t: recomputed_geglu(t, norm, layers, dtype), x, mlp, norm)


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
