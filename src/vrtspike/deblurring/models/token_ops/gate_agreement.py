"""Do the Triton kernels of the gate of GEGLU compute on this machine what the definition says?"""

from __future__ import annotations

import torch

from vrtspike.deblurring.models.kernel_trials import isolated, largest, shares_of_norm
from vrtspike.deblurring.models.token_ops.pointwise import gate
from vrtspike.deblurring.models.token_ops.triton_gate import triton_gate, triton_gate_backward

# Rows and numbers of the gate, which no tile divides; several programs below each other.
_ROWS, _HIDDEN = 601, 84


def largest_difference(device: torch.device, dtype: torch.dtype) -> float:
    """The largest difference from the definition, of results and gradients, as a share of norms.

    Args:
        device: where to run.
        dtype: type of the values; the definition is computed in float32.

    Returns:
        NaN where any result or gradient holds one.
    """
    with isolated(device):
        hidden = torch.randn(_ROWS, 2 * _HIDDEN).to(device, dtype).requires_grad_()
        bias = torch.randn(2 * _HIDDEN).to(device).requires_grad_()
        grad = torch.randn(_ROWS, _HIDDEN).to(device, dtype)
        found = triton_gate(hidden, bias)
        gradients = torch.autograd.grad(found, (hidden, bias), grad)
        again, *made_with_it = triton_gate_backward(grad, hidden.detach(), bias.detach())
        exact = hidden.detach().float().requires_grad_()
        expected = gate(exact + bias)
        slopes = torch.autograd.grad(expected, (exact, bias), grad.float())
        made = (found, again, *gradients, *made_with_it)
        return largest(shares_of_norm(made, (expected, expected, *slopes, *slopes)))
