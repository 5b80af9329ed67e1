"""Do the Triton kernels of sums of taps compute on this machine what the definition says?"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_trials import isolated, largest, shares_of_norm
from vrtspike.deblurring.models.tap_sums.definition import defined_activation, defined_sum
from vrtspike.deblurring.models.tap_sums.triton_sums import triton_activation, triton_sum

# Batch, frames, rows, columns, channels: blocks that pixels and channels do not fill; one frame.
_SHAPES = ((2, 3, 7, 11, 40), (2, 1, 5, 5, 32))
# With a bias, with a residual, slope of the activation.
_KINDS = ((True, True, 0.0), (True, False, 0.0), (False, True, None), (False, False, None))
_SLOPES = (0.0, 0.1)


def largest_difference(device: torch.device, dtype: torch.dtype) -> float:
    """The largest difference from the definition, of results and gradients, as a share of norms.

    Args:
        device: where to run.
        dtype: type of the taps; the definition is computed in float32.

    Returns:
        NaN where any result or gradient holds one.
    """
    differences: list[float] = []
    with isolated(device):
        for shape, kind in itertools.product(_SHAPES, _KINDS):
            biased, has_residual, slope = kind
            *size, channels = shape
            taps = torch.randn(*size, 3 * channels).to(device, dtype)
            bias = torch.randn(channels).to(device) if biased else None
            residual = torch.randn(shape).to(device, dtype) if has_residual else None
            inputs = [taps, bias, residual]
            grad = torch.randn(shape).to(device, dtype)
            exact = [None if t is None else t.float() for t in inputs]
            found = _results(triton_sum, inputs, grad, slope=slope)
            expected = _results(defined_sum, exact, grad.float(), slope=slope)
            differences += shares_of_norm(found, expected)
        for shape, slope in itertools.product(_SHAPES, _SLOPES):
            x, bias = torch.randn(shape[1:]).to(device, dtype), torch.randn(shape[-1:]).to(device)
            grad = torch.randn(shape[1:]).to(device, dtype)
            found = _results(triton_activation, [x, bias], grad, slope=slope)
            exact = [x.float(), bias]
            expected = _results(defined_activation, exact, grad.float(), slope=slope)
            differences += shares_of_norm(found, expected)
    return largest(differences)


def _results(
    function: Callable[..., Tensor],
    inputs: list[Tensor | None],
    grad: Tensor,
    *,
    slope: float | None,
) -> list[Tensor]:
    leaves = [None if t is None else t.detach().requires_grad_() for t in inputs]
    out = function(*leaves, slope=slope)
    given = [leaf for leaf in leaves if leaf is not None]
    return [out.detach(), *torch.autograd.grad(out, given, grad.to(out.dtype))]
