"""Compares the Triton kernels with the definition; runs in Triton's interpreter without a GPU.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import itertools
import sys

import torch

from vrtspike.models.token_ops import pointwise, triton_calls
from vrtspike.models.window_attention.explicit import explicit_attention
from vrtspike.models.window_attention.triton_attention import triton_attention
from vrtspike.models.windows import build_plan, clip_window

TOLERANCE = 2e-4
SIZES = ((3, 5, 8),)
WINDOWS = (((2, 4, 4), True), ((6, 4, 4), False))


def token_ops(device: torch.device) -> float:
    """Layer norm and gate, computed by PyTorch in float64 and by the kernels in float32."""
    rows, channels = 37, 20
    x, grad, hidden, gate_grad = (
        torch.randn(rows, width, device=device) for width in (channels, channels, 24, 12)
    )
    scale, shift = torch.randn(2, channels, device=device)
    exact = [t.double() for t in (x, scale, shift)]
    normed, mean, rstd = pointwise.normalise(*exact, torch.float64)
    expected = [normed, mean, rstd]
    expected += pointwise.normalise_backward(grad.double(), exact[0], mean, rstd, exact[1])
    expected += [pointwise.gate(hidden.double())]
    expected += pointwise.gate_backward(gate_grad.double(), hidden.double())
    found = [*triton_calls.normalise(x, scale, shift, torch.float32)]
    found += triton_calls.normalise_backward(grad, x, found[1], found[2], scale)
    found += [triton_calls.gate(hidden), *triton_calls.gate_backward(gate_grad, hidden)]
    return max(
        (a.flatten() - b.double().flatten()).abs().max().item()
        for a, b in zip(expected, found, strict=True)
    )


def main(device: torch.device) -> int:
    torch.manual_seed(0)
    worst = 0.0
    for size, (window, mutual), shifted in itertools.product(SIZES, WINDOWS, (False, True)):
        plan = build_plan(clip_window(size, window, shifted=shifted, mutual=mutual), device)
        length, heads, width = plan.out.numel(), 2, 20
        qkv = torch.randn(2, length, 3 * heads * width, device=device, requires_grad=True)
        bias = None
        if not mutual:
            shape = (heads, plan.tokens, plan.tokens)
            bias = torch.randn(shape, device=device, requires_grad=True)
        inputs = [t for t in (qkv, bias) if t is not None]
        grad = torch.randn(2, length, heads * width, device=device)
        results = []
        for attention in (explicit_attention, triton_attention):
            out = attention(qkv, bias, plan, heads)
            results.append([out, *torch.autograd.grad(out, inputs, grad)])
        for expected, found in zip(*results, strict=True):
            worst = max(worst, (expected - found).abs().max().item())
    worst = max(worst, token_ops(device))
    print(f"largest difference: {worst:.2e}")
    return int(not worst < TOLERANCE)


if __name__ == "__main__":
    sys.exit(main(torch.device("cuda" if torch.cuda.is_available() else "cpu")))
