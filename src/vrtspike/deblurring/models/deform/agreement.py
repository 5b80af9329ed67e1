"""Do the kernels of the guided deformable convolution compute what the definition says?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from vrtspike.deblurring.models.deform.definition import by_point, guided_deform_conv
from vrtspike.deblurring.models.deform.guide import alignment_guide, guide_by_kernel
from vrtspike.deblurring.models.deform.kernel import deform_by_kernel
from vrtspike.deblurring.models.deform.pairs import beside_frames, neighbours
from vrtspike.deblurring.models.kernel_trials import isolated, largest, shares_of_norm

Shape = tuple[int, int, int, int, int, int, int]
"""Clips, frames, groups, channels of a group, channels of the result, height, width."""

# The published model and the demo, on maps that tiles do not divide.
_SHAPES: Sequence[Shape] = ((1, 3, 16, 6, 96, 21, 26), (2, 2, 4, 8, 32, 9, 5))
_MAGNITUDE = 10.0


def largest_difference(
    device: torch.device, dtype: torch.dtype, shapes: Sequence[Shape] = _SHAPES
) -> float:
    """The largest difference from the definition, of results and gradients, as a share of the norm.

    Args:
        device: where to run both.
        dtype: type of the features; the definition is computed in float32, from rounded inputs.
        shapes: what to compute.

    Returns:
        NaN where any result or gradient holds one.
    """
    differences: list[float] = []
    generator = torch.Generator(device).manual_seed(0)
    with isolated(device):
        for shape in shapes:
            inputs = _inputs(shape, device, dtype, generator)
            differences += compared(_kernel, _definition, inputs, dtype, 2)
            differences += _guides_compared(inputs[0], inputs[3], dtype)
    return largest(differences)


def _guides_compared(x: Tensor, flow: Tensor, dtype: torch.dtype) -> list[float]:
    """Differences of the guide, the features beside it and their gradients.

    For features of the residual stream, and for those that have the type of the products already.
    """

    def kernel(x: Tensor, flow: Tensor) -> Tensor:
        return torch.cat([t.flatten() for t in guide_by_kernel(x, flow, dtype)])

    def definition(x: Tensor, flow: Tensor) -> Tensor:
        return torch.cat([t.flatten() for t in alignment_guide(x, flow, torch.float32)])

    of_stream, of_features = (compared(kernel, definition, [x, flow], dtype, n) for n in (0, 1))
    return of_stream + of_features


def _inputs(
    shape: Shape, device: torch.device, dtype: torch.dtype, generator: torch.Generator
) -> list[Tensor]:
    """x, raw, its bias, flow, weight and bias, rounded to ``dtype`` where a step has it so."""
    clips, frames, groups, channels, fan_out, height, width = shape
    pairs = 2 * clips * (frames - 1)
    sizes = (
        (clips, frames, height, width, groups * channels),
        (pairs, groups * 27, height, width),
        (groups * 27,),
        (pairs, 2, height, width),
        (fan_out, groups * channels, 3, 3),
        (fan_out,),
    )
    x, raw, shift, flow, weight, bias = (
        torch.randn(size, device=device, generator=generator) for size in sizes
    )
    # Many pixels, and out of the picture.
    x, raw, weight = (t.to(dtype).float() for t in (x, raw, weight))
    return [x, raw, shift, 5 * flow, weight, bias]


def _definition(
    x: Tensor, raw: Tensor, shift: Tensor, flow: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    neighbour = neighbours(x)[0].permute(0, 3, 1, 2)
    raw = raw + shift[:, None, None]
    aligned = guided_deform_conv(neighbour, raw, flow, weight, bias, _MAGNITUDE)
    return beside_frames(aligned.permute(0, 2, 3, 1), x.shape[1])


def _kernel(
    x: Tensor, raw: Tensor, shift: Tensor, flow: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """The kernels behind the arguments of the definition."""
    groups = raw.shape[1] // 27
    ordered = by_point(raw.transpose(0, 1), groups).permute(3, 4, 5, 0, 1, 2)
    return deform_by_kernel(x, ordered, by_point(shift, groups), flow, weight, bias, _MAGNITUDE)


def compared(
    kernel: Callable[..., Tensor],
    definition: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    dtype: torch.dtype,
    rounded: int,
) -> list[float]:
    """Differences of output and gradients; ``dtype`` is that of the first ``rounded`` inputs."""
    leaves = [t.detach().to(dtype if i < rounded else t.dtype) for i, t in enumerate(inputs)]
    found = _results(kernel, leaves, dtype)
    expected = _results(definition, [t.float() for t in leaves], dtype)
    return shares_of_norm(found, expected)


def _results(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], dtype: torch.dtype
) -> list[Tensor]:
    """Output and all gradients, of an output's gradient rounded to ``dtype``."""
    leaves = [t.detach().requires_grad_() for t in inputs]
    out = function(*leaves)
    grad = torch.linspace(-1, 2, out.numel(), device=out.device).view(out.shape)
    grads = torch.autograd.grad(out, leaves, grad.to(dtype).to(out.dtype))
    return [out.detach(), *grads]
