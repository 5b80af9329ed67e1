"""Modules that keep only their arguments for the backward pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.deblurring.models.checks import kept_by
from vrtspike.deblurring.models.recomputation import Recomputed


class Layers(Recomputed):
    """Two layers; counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 3))
        self.calls = 0

    def forward(self, x: Tensor, factor: float, y: Tensor | None = None) -> tuple[Tensor, Tensor]:
        self.calls += 1
        out = self.layers(factor * x)
        return out, out if y is None else out * y


def kept(layers: Layers, x: Tensor, y: Tensor) -> tuple[int, list[Tensor]]:
    """Values that are kept, and gradients."""
    parameters = {p.data_ptr() for p in layers.parameters()}
    outs: list[Tensor] = []
    found = kept_by(lambda: outs.extend(layers(x, 2.0, y)))
    leaves = [x, y, *layers.parameters()]
    grads = torch.autograd.grad(outs[0].sin().sum() + outs[1].sum(), leaves)
    return sum(t.numel() for at, t in found.items() if at not in parameters), list(grads)


def test_gradients_are_those_of_what_is_kept_bit_by_bit() -> None:
    x, y = torch.randn(5, 4, requires_grad=True), torch.randn(5, 3, requires_grad=True)
    plain, again = Layers(), Layers()
    again.checkpoint = True
    kept_by_plain, expected = kept(plain, x, y)
    kept_by_again, found = kept(again, x, y)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert (plain.calls, again.calls) == (1, 2)
    assert kept_by_again <= x.numel() + y.numel() < kept_by_plain


def test_without_gradients_nothing_is_checkpointed() -> None:
    layers, x = Layers(), torch.randn(5, 4)
    layers.checkpoint = True
    with torch.no_grad():
        assert not layers(x, 1.0)[0].requires_grad
    assert layers.calls == 1
