"""Linear layers around attention: layer norm and projections before it, projection after it.

Kernels take norm, padding, position codes and residual into the pass of the product.
"""

from __future__ import annotations

import math
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.mixed_precision import autocast_dtype
from vrtspike.deblurring.models.ops.comparison import differences, isolated, largest
from vrtspike.deblurring.models.ops.dispatch import Compute, Operation, uses_kernel
from vrtspike.deblurring.models.ops.projections.triton_projections import (
    triton_output,
    triton_projections,
)
from vrtspike.deblurring.models.ops.recomputation import recomputed
from vrtspike.deblurring.models.ops.token_layout import (
    Geometries,
    Layout,
    add_scaled,
    fits,
    layout_of,
    tiled_code,
)
from vrtspike.deblurring.models.ops.window_attention.windows import (
    Size3,
    WindowGeometry,
    clip_window,
)


def attention_inputs(
    x: Tensor,
    norm: nn.LayerNorm,
    own: nn.Linear,
    mutual: nn.Linear | None,
    code: Tensor | None,
    windows: Geometries,
    compute: Compute,
    keep: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Queries, keys and values of a map: ``own(pad(norm(x)))``, ``mutual(pad(norm(x)) + code)``.

    Args:
        x: (B, D, H, W, C).
        norm: layer norm over the channels with the default epsilon.
        own: C to 3C channels, of self attention.
        mutual: C to 3C channels, of mutual attention; None: there is none.
        code: (Wh, Ww, C), added to the normalised tokens of each window of mutual attention; a
            constant.
        windows: maps are padded by zeros at the ends of their axes to whole windows.
        compute: the settings of the model.
        keep: (B,) float32; samples where it is 0 need not be computed. None: all are read.

    Returns:
        ``x`` itself, to be used from here on (a kernel adds its gradient to that of the rest in the
        same pass), and queries, keys and values (B, tokens of the padded map, 3C) of both.
    """
    dtype, layout = autocast_dtype(x), layout_of(windows)
    if layout and fits(x, dtype) and uses_kernel(OPERATION, x, dtype, compute):
        places = None if code is None else code.flatten(0, 1)
        tokens, first, last = triton_projections(
            x.flatten(1, 3), norm, own, mutual, places, layout, dtype, keep
        )
        return tokens.view(x.shape), first, None if mutual is None else last

    def projected(x: Tensor, layer: nn.Linear, window: WindowGeometry) -> Tensor:
        tokens = functional.pad(norm(x), window.pad) if any(window.pad) else norm(x)
        if layer is mutual and code is not None:
            tokens = tokens + tiled_code(code, window).to(tokens.dtype)
        return layer(tokens).flatten(1, 3)

    again = not compute.keeps_all(x.device)
    first = recomputed(again, projected, x, own, windows[0])
    if mutual is None or windows[1] is None:
        return x, first, None
    return x, first, recomputed(again, projected, x, mutual, windows[1])


def add_output(
    x: Tensor,
    layer: nn.Linear,
    own: Tensor,
    mutual: Tensor | None,
    windows: Geometries,
    compute: Compute,
    keep: Tensor | None = None,
) -> Tensor:
    """``x + keep * layer([mutual, own])``, results of attention cropped to the map.

    Args:
        x: (B, D, H, W, C), the residual stream.
        layer: C channels, or 2C with mutual attention, to C.
        own: (B, tokens of the padded map, C), of self attention.
        mutual: likewise of mutual attention, or None.
        windows: as for :func:`attention_inputs`.
        compute: the settings of the model.
        keep: (B,) float32, the factor of each sample's branch. None: 1 for all.

    Returns:
        (B, D, H, W, C).
    """
    dtype, layout = autocast_dtype(x), layout_of(windows)
    if layout and fits(x, dtype) and uses_kernel(OPERATION, x, dtype, compute):
        return triton_output(x.flatten(1, 3), layer, own, mutual, layout, dtype, keep).view(x.shape)
    depth, height, width = x.shape[1:4]
    parts = [
        result.unflatten(1, window.padded)[:, :depth, :height, :width]
        for result, window in ((mutual, windows[1]), (own, windows[0]))
        if result is not None and window is not None
    ]
    # A product for each part, without the copy that joins them.
    weights = layer.weight.split(x.shape[-1], 1)
    out = functional.linear(parts[-1], weights[-1], layer.bias)
    if len(parts) == 2:
        rows = parts[0].reshape(-1, x.shape[-1])
        out = torch.addmm(out.view_as(rows), rows, weights[0].t()).view(out.shape)
    return add_scaled(x, out, keep)


def norm_linear(
    x: Tensor, norm: nn.LayerNorm, layer: nn.Linear, compute: Compute
) -> tuple[Tensor, Tensor]:
    """``layer(norm(x))`` of tokens (B, ..., C).

    Returns:
        ``x`` itself, to be used from here on as for :func:`attention_inputs`, and the projection
        (B, ..., O).
    """
    dtype = autocast_dtype(x)
    if fits(x, dtype) and uses_kernel(OPERATION, x, dtype, compute):
        tokens = x.flatten(1, -2)
        layout = Layout(tokens.shape[1], tokens.shape[1])
        through, out, _ = triton_projections(tokens, norm, layer, None, None, layout, dtype)
        return through.view(x.shape), out.view(*x.shape[:-1], -1)

    def projected(x: Tensor) -> Tensor:
        return layer(norm(x))

    return x, recomputed(not compute.keeps_all(x.device), projected, x)


def add_linear(x: Tensor, layer: nn.Linear, y: Tensor, compute: Compute) -> Tensor:
    """``x + layer(y)``, all (B, ..., C)."""
    dtype = autocast_dtype(x)
    if fits(x, dtype) and uses_kernel(OPERATION, x, dtype, compute):
        tokens = x.flatten(1, -2)
        layout = Layout(tokens.shape[1], tokens.shape[1])
        return triton_output(tokens, layer, y.flatten(1, -2), None, layout, dtype).view(x.shape)
    return x + layer(y)


Case = tuple[int, Size3, Size3]
"""Channels, map (D, H, W) and window of a comparison."""

# Of the published model: blocks that rows do not fill, and a frame to be padded.
_CASES: tuple[Case, ...] = ((96, (5, 8, 16), (2, 8, 8)), (120, (3, 7, 14), (2, 7, 7)))
_SAMPLES = 2
_KEEP = (0.0, 1.25)


def trial(device: torch.device, dtype: torch.dtype) -> float:
    """The largest difference of the kernels from the reference, as a share of the norm."""
    found: list[float] = []
    for case, mutual, drops in product(_CASES, (False, True), (False, True)):
        found += input_differences(device, dtype, case, mutual=mutual, drops=drops)
        found += output_differences(device, dtype, case, mutual=mutual, drops=drops)
    return largest(found)


def input_differences(
    device: torch.device, dtype: torch.dtype, case: Case, *, mutual: bool, drops: bool
) -> list[float]:
    """Differences of :func:`attention_inputs`, see :func:`differences`.

    Args:
        device: where to run.
        dtype: type of the products.
        case: what to compute.
        mutual: with mutual attention.
        drops: with one of two samples that stochastic depth drops, and that has no projections.
    """
    channels, size, _ = case
    with isolated(device) as generator:
        windows = _windows(case, mutual=mutual)
        norm = nn.LayerNorm(channels, device=device)
        own, other = (nn.Linear(channels, 3 * channels, device=device) for _ in range(2))
        second = other if mutual else None
        layers = [layer for layer in (norm, own, second) if layer is not None]
        for parameter in norm.parameters():
            nn.init.normal_(parameter)
        code = None
        if windows[1] is not None:
            shape = (*windows[1].window[1:], channels)
            code = torch.randn(shape, device=device, generator=generator)
        keep = torch.tensor(_KEEP, device=device) if drops else None

        def run(compute: Compute, x: Tensor) -> list[Tensor]:
            given = (norm, own, second, code, windows, compute, keep)
            tokens, *projections = attention_inputs(x, *given)
            return [tokens, *(t[1:] if drops else t for t in projections if t is not None)]

        x = torch.randn((_SAMPLES, *size, channels), device=device, generator=generator)
        return differences(run, [x], dtype, layers=layers)


def output_differences(
    device: torch.device, dtype: torch.dtype, case: Case, *, mutual: bool, drops: bool
) -> list[float]:
    """Differences of :func:`add_output`; arguments as above."""
    channels, size, _ = case
    with isolated(device) as generator:
        windows = _windows(case, mutual=mutual)
        layer = nn.Linear((1 + mutual) * channels, channels, device=device)
        keep = torch.tensor(_KEEP, device=device) if drops else None

        def run(compute: Compute, x: Tensor, own: Tensor, second: Tensor | None = None) -> Tensor:
            return add_output(x, layer, own, second, windows, compute, keep)

        maps = [(math.prod(window.padded), channels) for window in windows if window is not None]
        shapes = [(_SAMPLES, *shape) for shape in ((*size, channels), *maps)]
        inputs = [torch.randn(shape, device=device, generator=generator) for shape in shapes]
        return differences(run, inputs, dtype, layers=[layer])


def _windows(case: Case, *, mutual: bool) -> Geometries:
    """Shifted windows of self and of mutual attention."""
    _, size, window = case
    own = clip_window(size, window, shifted=True, mutual=False)
    return own, clip_window(size, window, shifted=True, mutual=True) if mutual else None


OPERATION = Operation("projections", trial)
