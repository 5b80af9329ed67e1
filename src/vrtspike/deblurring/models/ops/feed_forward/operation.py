"""Feed-forward layers over channels, with layer norm and residual.

Sources: Vaswani et al., 2017, "Attention Is All You Need"; the gate of Shazeer, 2020, "GLU Variants
Improve Transformer".
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.ops.comparison import differences, isolated, largest
from vrtspike.deblurring.models.ops.dispatch import Compute, Operation, uses_kernel
from vrtspike.deblurring.models.ops.feed_forward.recompute import recomputed_geglu
from vrtspike.deblurring.models.ops.feed_forward.triton_feed_forward import (
    Layers,
    triton_feed_forward,
)
from vrtspike.deblurring.models.ops.token_layout import add_scaled, fits


def feed_forward(
    x: Tensor, norm: nn.LayerNorm, layers: Layers, compute: Compute, keep: Tensor | None = None
) -> Tensor:
    """``x + keep * out(GELU(gate(norm(x))) * value(norm(x)))``.

    Args:
        x: (B, ..., C), the residual stream.
        norm: layer norm over the channels with the default epsilon.
        layers: gate, value and out, of C channels; without a value the layer is GELU alone.
        compute: the settings of the model.
        keep: (B,) float32, the factor of each sample's branch. None: 1 for all.

    Returns:
        (B, ..., C).
    """
    dtype = autocast_dtype(x)
    if fits(x, dtype) and uses_kernel(OPERATION, x, dtype, compute):
        return triton_feed_forward(x.flatten(1, -2), norm, layers, dtype, keep).view(x.shape)
    gate, value, out = layers
    if value is None:
        return add_scaled(x, out(functional.gelu(gate(norm(x)))), keep)
    if compute.keeps_all(x.device):
        return add_scaled(x, _gated(norm(x), gate, value, out), keep)
    return add_scaled(x, recomputed_geglu(x, norm, (gate, value, out), dtype), keep)


def geglu(x: Tensor, layers: Layers, compute: Compute) -> Tensor:
    """``out(GELU(gate(x)) * value(x))``.

    Args:
        x: (..., C).
        layers: gate, value and out.
        compute: the settings of the model.

    Returns:
        (..., channels of the result).
    """
    gate, value, out = layers
    assert value is not None
    if compute.keeps_all(x.device):
        return _gated(x, gate, value, out)
    return recomputed_geglu(x, None, (gate, value, out), autocast_dtype(x))


def _gated(x: Tensor, gate: nn.Linear, value: nn.Linear, out: nn.Linear) -> Tensor:
    weight, bias = torch.cat((gate.weight, value.weight)), torch.cat((gate.bias, value.bias))
    found: Tensor = out(_GatedProduct.apply(functional.linear(x, weight, bias)))
    return found


class _GatedProduct(torch.autograd.Function):
    """``GELU(gate) * value`` of both beside each other, (..., 2H) -> (..., H).

    Written out because the gradients of two halves would be copied to be one tensor again.
    """

    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(both)
        gate, value = both.chunk(2, dim=-1)
        return functional.gelu(gate) * value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ANN401
        (both,) = ctx.saved_tensors
        gate, value = both.chunk(2, dim=-1)
        found = torch.empty_like(both)
        for_gate, for_value = found.chunk(2, dim=-1)
        torch.mul(grad, functional.gelu(gate), out=for_value)
        torch.ops.aten.gelu_backward.grad_input(grad * value, gate, grad_input=for_gate)
        return found


# Channels and tokens of the published model: blocks that rows and hidden channels do not fill.
_CASES = ((96, 640), (120, 270))
_KEEP = (0.0, 1.25)


def trial(device: torch.device, dtype: torch.dtype) -> float:
    """The largest difference of the kernels from the reference, as a share of the norm."""
    found: list[float] = []
    for (channels, tokens), gated, drops in product(_CASES, (True, False), (True, False)):
        found += feed_forward_differences(device, dtype, channels, tokens, gated=gated, drops=drops)
    return largest(found)


def feed_forward_differences(
    device: torch.device,
    dtype: torch.dtype,
    channels: int,
    tokens: int,
    *,
    gated: bool,
    drops: bool,
) -> list[float]:
    """Differences of :func:`feed_forward`, see :func:`differences`.

    Args:
        device: where to run.
        dtype: type of the products.
        channels: of a token; hidden channels are twice as many.
        tokens: of each of two samples.
        gated: whether there is a gate.
        drops: whether stochastic depth drops one sample.
    """
    with isolated(device) as generator:
        norm = nn.LayerNorm(channels, device=device)
        gate, value = (nn.Linear(channels, 2 * channels, device=device) for _ in range(2))
        out = nn.Linear(2 * channels, channels, device=device)
        layers = [norm, gate, out, *([value] if gated else [])]
        for parameter in norm.parameters():
            nn.init.normal_(parameter)
        keep = torch.tensor(_KEEP, device=device) if drops else None

        def run(compute: Compute, x: Tensor) -> Tensor:
            return feed_forward(x, norm, (gate, value if gated else None, out), compute, keep)

        x = torch.randn((len(_KEEP), tokens, channels), device=device, generator=generator)
        return differences(run, [x], dtype, layers=layers)


OPERATION = Operation("feed_forward", trial)
