"""Compares the Triton kernels of layer norms with their definition, in Triton's interpreter.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from vrtspike.deblurring.models.norms.agreement import largest_difference
from vrtspike.deblurring.models.norms.definition import defined_norm
from vrtspike.deblurring.models.norms.triton_norms import triton_norm

TOLERANCES = {torch.float32: 2e-6, torch.float16: 1e-3}


def main() -> int:
    # Memory that nobody has written holds NaN, so what is read of it shows.
    torch.use_deterministic_algorithms(True)
    agrees = True
    for dtype, tolerance in TOLERANCES.items():
        difference = largest_difference(torch.device("cpu"), dtype)
        print(f"{dtype}: largest difference {difference:.2e} of the norm")
        agrees &= difference < tolerance
    difference = of_other_orders()
    print(f"channels first in memory: {difference:.2e} of the norm")
    return int(not (agrees and difference < 2e-6))


def of_other_orders() -> float:
    """The largest difference where all that is given lies channels first; then of one way alone."""
    torch.manual_seed(0)

    def turned(channels: int) -> Tensor:
        return torch.randn(1, channels, 2, 3, 5).movedim(1, -1)

    x, beside, scale, shift = turned(40), turned(40), torch.randn(40), torch.randn(40)
    leaves = [t.requires_grad_() for t in (x, beside, scale, shift)]
    grads = turned(40), turned(80)
    found, expected = [], []
    for results, norm in ((found, triton_norm), (expected, defined_norm)):
        outs = norm(x, scale, shift, beside, torch.float32, folded=False)
        results += [*outs, *torch.autograd.grad(outs, leaves, grads, retain_graph=True)]
        results += torch.autograd.grad(outs[0], [x], grads[:1])
    shares = [(a - b).norm() / b.norm() for a, b in zip(found, expected, strict=True)]
    return torch.stack(shares).max().item()


if __name__ == "__main__":
    sys.exit(main())
