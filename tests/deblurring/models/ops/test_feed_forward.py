"""Feed-forward layers: by hand, and their kernels against the reference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.deblurring.models.checks import assert_same, kept_by
from vrtspike.deblurring.models.ops.dispatch import KERNELS, REFERENCE, Compute
from vrtspike.deblurring.models.ops.feed_forward import Layers, feed_forward, geglu, operation

CHEAP = Compute(recompute="cheap")
POLICIES = pytest.mark.parametrize("compute", [REFERENCE, CHEAP])


def norm_of(channels: int = 6) -> nn.LayerNorm:
    torch.manual_seed(0)
    norm = nn.LayerNorm(channels).double()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


def layers_of(channels: int = 6, hidden: int = 5, out: int = 6) -> Layers:
    gate, value = (nn.Linear(channels, hidden).double() for _ in range(2))
    return gate, value, nn.Linear(hidden, out).double()


def parameters(*layers: nn.Module | None) -> list[Tensor]:
    return [p for layer in layers if layer is not None for p in layer.parameters()]


def gated(x: Tensor, layers: Layers) -> Tensor:
    gate, value, out = layers
    hidden = functional.gelu(gate(x))
    return out(hidden if value is None else hidden * value(x))


@POLICIES
@pytest.mark.parametrize("has_value", [True, False])
@pytest.mark.parametrize("keep", [None, torch.tensor([0.0, 1.25])])
def test_a_layer_by_hand(compute: Compute, has_value: bool, keep: Tensor | None) -> None:
    norm, (gate, value, out) = norm_of(), layers_of()
    layers = (gate, value if has_value else None, out)
    x = torch.randn(2, 3, 4, 5, 6, dtype=torch.double, requires_grad=True)
    factors = torch.ones(2) if keep is None else keep
    expected = x + factors.view(2, 1, 1, 1, 1) * gated(norm(x), layers)
    found = feed_forward(x, norm, layers, compute, keep)
    assert_same([found], [expected], [x, *parameters(norm, *layers)])
    if keep is not None:
        assert torch.equal(found[0], x[0])


@POLICIES
def test_geglu_by_hand(compute: Compute) -> None:
    torch.manual_seed(0)
    layers = layers_of(out=4)
    # More rows than one piece holds (2**18 values of both hidden widths).
    x = torch.randn(2, 30000, 6, dtype=torch.double, requires_grad=True)
    assert_same([geglu(x, layers, compute)], [gated(x, layers)], [x, *parameters(*layers)])


def test_only_the_input_is_kept() -> None:
    norm, layers = norm_of(16), layers_of(16, 32, 16)
    x = torch.randn(2, 500, 16, dtype=torch.double, requires_grad=True)

    def kept(compute: Compute) -> set[int]:
        found = kept_by(lambda: feed_forward(x, norm, layers, compute)).items()
        return {place for place, tensor in found if tensor.numel() >= x.numel()}

    assert kept(CHEAP) == {x.data_ptr()}
    assert len(kept(REFERENCE)) > 3


@pytest.mark.parametrize(("channels", "runs"), [(24, True), (30, False), (128, False)])
def test_where_no_kernel_fits_the_reference_runs(
    channels: int, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    def kernel(x: Tensor, *others: object) -> Tensor:
        ran.append((x.shape, others[2:]))
        return x

    monkeypatch.setattr(operation, "triton_feed_forward", kernel)
    norm, layers = norm_of(channels).float(), [m.float() for m in layers_of(channels, 8, channels)]
    x, keep = torch.randn(2, 3, 4, channels), torch.ones(2)
    with torch.autocast("cpu", torch.float16):
        found = feed_forward(x, norm, tuple(layers), KERNELS, keep)
    assert torch.equal(found, x) == runs
    assert ran == ([((2, 12, 24), (torch.float16, keep))] if runs else [])
