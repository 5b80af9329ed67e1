"""Compares the Triton kernels with the definition; runs in Triton's interpreter without a GPU.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import itertools
import sys

import torch

from vrtspike.models.window_attention.explicit import explicit_attention
from vrtspike.models.window_attention.triton_attention import triton_attention
from vrtspike.models.windows import build_plan, clip_window

TOLERANCE = 2e-4
SIZES = ((3, 5, 8),)
WINDOWS = (((2, 4, 4), True), ((6, 4, 4), False))


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
    print(f"largest difference: {worst:.2e}")
    return int(not worst < TOLERANCE)


if __name__ == "__main__":
    sys.exit(main(torch.device("cuda" if torch.cuda.is_available() else "cpu")))
