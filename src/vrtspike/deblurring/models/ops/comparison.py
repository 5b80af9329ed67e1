"""Kernels compared with reference implementations: results and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from vrtspike.deblurring.models.ops.dispatch import KERNELS, REFERENCE, Compute

Function = Callable[..., Tensor | Sequence[Tensor]]


@contextmanager
def isolated(device: torch.device) -> Iterator[torch.Generator]:
    """Around a comparison: neither random numbers of the run nor its graph nor autocast take part.

    Yields:
        a seeded generator on the device; the default ones are seeded, too.
    """
    off = torch.autocast(device.type, enabled=False)
    drawing = [device] if device.type == "cuda" and torch.cuda.is_available() else []
    numbers = torch.random.fork_rng(devices=drawing)
    with torch.inference_mode(False), torch.enable_grad(), off, numbers:
        torch.manual_seed(0)
        yield torch.Generator(device).manual_seed(0)


def differences(
    function: Function,
    inputs: Sequence[Tensor],
    dtype: torch.dtype,
    *,
    rounded: int = 0,
    layers: Sequence[nn.Module] = (),
) -> list[float]:
    """Differences of an operation by its kernels from its reference in float32.

    Args:
        function: called with :data:`KERNELS` under autocast to ``dtype``, and with
            :data:`REFERENCE`, then the inputs.
        inputs: float32.
        dtype: type of the products.
        rounded: the first so many inputs are of ``dtype``, for both.
        layers: whose parameters' gradients are compared, too.

    Returns:
        The norm of each difference over the norm of what is expected, of all results and gradients;
        NaN where any value is one.
    """
    given = [t.detach().to(dtype) if i < rounded else t.detach() for i, t in enumerate(inputs)]
    parameters = [p for layer in layers for p in layer.parameters()]
    with torch.autocast(inputs[0].device.type, dtype):
        found = _results(function, KERNELS, given, parameters, dtype)
    exact = [t.float() for t in given]
    expected = _results(function, REFERENCE, exact, parameters, dtype)
    return relative_errors(found, expected)


def _results(
    function: Function,
    compute: Compute,
    inputs: Sequence[Tensor],
    parameters: Sequence[Tensor],
    dtype: torch.dtype,
) -> list[Tensor]:
    """Results, and gradients of inputs and parameters for gradients that ``dtype`` can name."""
    leaves = [t.detach().requires_grad_() for t in inputs]
    found = function(compute, *leaves)
    outs = [found] if isinstance(found, Tensor) else list(found)
    grads = []
    for out in outs:
        ramp = torch.linspace(-1, 2, out.numel(), device=out.device).view(out.shape)
        grads.append(ramp.to(dtype).to(out.dtype))
    return [*(t.detach() for t in outs), *torch.autograd.grad(outs, [*leaves, *parameters], grads)]


def relative_errors(found: Iterable[Tensor], expected: Iterable[Tensor]) -> list[float]:
    """Norms of the differences of tensors over the norms of what is expected.

    NaN where tensors have no data: a comparison may be traced for the kernels that it launches.
    """
    errors = []
    for a, b in zip(found, expected, strict=True):
        error = (a.float() - b.float()).norm() / b.float().norm()
        errors.append(math.nan if isinstance(error, FakeTensor) else error.item())
    return errors


def largest(errors: Iterable[float]) -> float:
    """The largest difference; NaN where there is one, which Python's max() may pass over."""
    found = list(errors)
    return math.nan if any(map(math.isnan, found)) else max(found)
