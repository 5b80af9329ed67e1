"""Compares the kernels of feed-forward layers with the reference; in Triton's interpreter on a CPU.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys
from itertools import product
from unittest import mock

import torch
from torch import nn

from vrtspike.deblurring.models.ops.comparison import isolated, largest
from vrtspike.deblurring.models.ops.dispatch import KERNELS
from vrtspike.deblurring.models.ops.feed_forward import Layers, feed_forward, triton_feed_forward
from vrtspike.deblurring.models.ops.feed_forward.operation import feed_forward_differences, trial

# Float16 stands for bfloat16, which the interpreter cannot multiply.
HALF = torch.float16
TOLERANCE = 2e-3
CPU = torch.device("cpu")
# Channels and tokens: several blocks and a part of one; the widths of the published model.
SIZES = ((16, 290), (96, 30), (120, 140))


def check_size(channels: int, tokens: int, *, gated: bool, drops: bool) -> None:
    """Result and all gradients are those of the reference."""
    found = feed_forward_differences(CPU, HALF, channels, tokens, gated=gated, drops=drops)
    print(f"{channels} channels, {tokens} tokens, {gated=} {drops=}: {largest(found):.1e}")
    assert largest(found) < TOLERANCE


def layers_of(channels: int, hidden: int, *, gated: bool = True) -> Layers:
    gate, value = (nn.Linear(channels, hidden) for _ in range(2))
    return gate, value if gated else None, nn.Linear(hidden, channels)


def check_dropped(gated: bool) -> None:
    """Nothing of a dropped sample comes through but its own tokens and their gradient."""
    norm, layers = nn.LayerNorm(24), layers_of(24, 48, gated=gated)
    x, grad = torch.randn(2, 2, 130, 24)
    x[0] = torch.nan
    parameters = [p for layer in (norm, *layers) if layer is not None for p in layer.parameters()]
    found = []
    for kept in (slice(None), slice(1, None)):
        leaf = x[kept].clone().requires_grad_()
        with torch.autocast("cpu", HALF):
            out = feed_forward(leaf, norm, layers, KERNELS, torch.tensor([0.0, 1.25])[kept])
        found.append((out, *torch.autograd.grad(out, [leaf, *parameters], grad[kept])))
    (out, grad_x, *whole), (alone, grad_alone, *own) = found
    torch.testing.assert_close(out[1:], alone)
    assert out[0].isnan().all()
    assert torch.equal(grad_x[0], grad[0])
    torch.testing.assert_close(grad_x[1:], grad_alone)
    torch.testing.assert_close(whole, own)


def check_edge_of_float16() -> None:
    """Tokens of nearly one value: over their small deviation their mean exceeds float16."""
    norm, layers = nn.LayerNorm(24), layers_of(24, 48)
    x = (300 + 1e-4 * torch.randn(1, 105, 24)).requires_grad_()
    with torch.autocast("cpu", HALF):
        out = feed_forward(x, norm, layers, KERNELS)
    parameters = [p for layer in (norm, *layers) if layer is not None for p in layer.parameters()]
    grads = torch.autograd.grad(out.float().sum(), [x, *parameters])
    assert all(t.isfinite().all() for t in (out, *grads))


def check_rounding_of_biases() -> None:
    """Rounding a bias to float16 would leave out 3e-4 of the sum over all hidden channels.

    Products of gate and value are rounded, too, but up and down.
    """
    norm, (gate, value, last), x = nn.LayerNorm(24), layers_of(24, 256), torch.randn(1, 16, 24)
    values = 1 + torch.randint(1024, (256,)) / 1024
    assert value is not None
    with torch.no_grad(), torch.autocast("cpu", HALF):
        gate.weight.zero_()
        value.weight.zero_()
        gate.bias.fill_(11.0035)  # between two numbers of float16; GELU leaves it as it is
        value.bias.copy_(values)
        last.weight.fill_(1 / 256)
        last.bias.zero_()
        out = feed_forward(x, norm, (gate, value, last), KERNELS)
    assert ((out - x) / (11.0035 * values.mean()) - 1).abs().max() < 5e-5


def main() -> None:
    if torch.cuda.is_available():
        assert trial(torch.device("cuda"), HALF) < TOLERANCE
        return
    # Memory that nobody has written holds NaN.
    torch.use_deterministic_algorithms(True)
    check_size(24, 40, gated=True, drops=True)
    with isolated(CPU):
        if "quick" in sys.argv:
            return
        for gated in (True, False):
            check_dropped(gated)
        check_edge_of_float16()
        check_rounding_of_biases()
    for (channels, tokens), gated, drops in product(SIZES, (True, False), (True, False)):
        check_size(channels, tokens, gated=gated, drops=drops)
    with mock.patch.object(
        triton_feed_forward, "has_products_from_shared_memory", return_value=False
    ):
        check_size(24, 140, gated=True, drops=True)


if __name__ == "__main__":
    main()
