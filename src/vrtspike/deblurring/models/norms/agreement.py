"""Do the Triton kernels of layer norms compute on this machine what the definition says?"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_trials import isolated, largest, shares_of_norm
from vrtspike.deblurring.models.norms.definition import defined_norm
from vrtspike.deblurring.models.norms.triton_norms import triton_norm

# Batch, frames, rows, columns, channels: blocks that rows and channels do not fill.
_SHAPES = ((2, 3, 8, 14, 40), (1, 2, 10, 6, 96))
# Beside other channels, folded.
_KINDS = ((True, False), (False, False), (False, True))


def largest_difference(device: torch.device, dtype: torch.dtype) -> float:
    """The largest difference from the definition, of results and gradients, as a share of norms.

    Args:
        device: where to run.
        dtype: type of features or result; the definition is computed in float32.

    Returns:
        NaN where any result or gradient holds one.
    """
    differences: list[float] = []
    with isolated(device):
        types = ((torch.float32, dtype), (dtype, dtype), (dtype, torch.float32))
        for shape, kind, (of_x, of_out) in itertools.product(_SHAPES, _KINDS, types):
            has_beside, folded = kind
            channels = shape[-1] * (4 if folded else 1)
            # Means as large as deviations; shift and scale are parameters.
            x = (torch.randn(shape) + 1).to(device, of_x)
            scale, shift = (torch.randn(channels).to(device) for _ in range(2))
            beside = torch.randn(shape).to(device, dtype) if has_beside else None
            inputs = [x, scale, shift, beside]
            exact = [None if t is None else t.float() for t in inputs]
            for through in (True, False):
                found = _results(triton_norm, inputs, of_out, folded=folded, through=through)
                expected = _results(
                    defined_norm, exact, torch.float32, folded=folded, through=through
                )
                differences += shares_of_norm(found, expected)
    return largest(differences)


def _results(
    function: Callable[..., tuple[Tensor, Tensor]],
    inputs: list[Tensor | None],
    dtype: torch.dtype,
    *,
    folded: bool,
    through: bool,
) -> list[Tensor]:
    """The result and all gradients, with ``through`` also of what is handed through."""
    leaves = [None if t is None else t.detach().requires_grad_() for t in inputs]
    same, out = function(*leaves, dtype, folded=folded)
    # Numbers that half precision has.
    weights = (torch.arange(out.numel(), device=out.device) % 17 - 8).view(out.shape) / 8
    loss = (out.float() * weights).sum()
    if through:
        loss = loss + (same.float() * (torch.arange(same.shape[-1], device=out.device) % 5)).sum()
    given = [leaf for leaf in leaves if leaf is not None]
    return [out.detach(), *torch.autograd.grad(loss, given)]
