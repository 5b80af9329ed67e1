"""Do the Triton kernels of token layers compute on this machine what the plain layers say?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.kernel_trials import isolated, largest, shares_of_norm
from vrtspike.deblurring.models.layers import GEGLU, FeedForward
from vrtspike.deblurring.models.token_ops.input_projections import triton_projections
from vrtspike.deblurring.models.token_ops.joined import triton_joined
from vrtspike.deblurring.models.token_ops.launch import fits, has_room
from vrtspike.deblurring.models.token_ops.maps import layout
from vrtspike.deblurring.models.token_ops.output_projection import triton_output
from vrtspike.deblurring.models.token_ops.triton_feed_forward import triton_feed_forward
from vrtspike.deblurring.models.windows import Size3, WindowGeometry, clip_window

Function = Callable[..., Tensor | tuple[Tensor, ...]]
Sizes = Sequence[tuple[int, Size3, Size3]]

# (channels, map, window) of the published model: blocks that rows and hidden channels do not fill,
# a frame to be padded, and rows and columns to be padded.
_SIZES: Sizes = ((96, (5, 8, 16), (2, 8, 8)), (120, (3, 9, 10), (2, 7, 7)))
# A GPU sums the gradients of weights over shares of the rows: here several blocks of rows each.
_SIZE_CUDA: Sizes = ((96, (5, 96, 96), (2, 8, 8)),)
_SAMPLES = 2
_KEEP = (0.0, 1.25)


def feed_forward(
    x: Tensor, norm: nn.LayerNorm, mlp: GEGLU | FeedForward, keep: Tensor | None
) -> Tensor:
    """The definition of :func:`triton_feed_forward`."""
    return x + _scaled(mlp(norm(x)), keep)


def projections(
    x: Tensor,
    norm: nn.LayerNorm,
    own: nn.Linear,
    mutual: nn.Linear | None,
    code: Tensor | None,
    windows: tuple[WindowGeometry, WindowGeometry],
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """The definition of :func:`triton_projections`."""
    first, second = (functional.pad(norm(x), geometry.pad) for geometry in windows)
    if mutual is None or code is None:
        return (x, x), own(first).flatten(1, 3), x.new_empty(0)
    _, height, width = windows[1].padded
    _, window_h, window_w = windows[1].window
    tile = code.view(window_h, window_w, -1).roll(windows[1].shift[1:], (0, 1))
    coded = second + tile.repeat(height // window_h, width // window_w, 1)
    return (x, x), own(first).flatten(1, 3), mutual(coded).flatten(1, 3)


def output(
    x: Tensor,
    layer: nn.Linear,
    own: Tensor,
    mutual: Tensor | None,
    windows: tuple[WindowGeometry, WindowGeometry],
    keep: Tensor | None,
) -> Tensor:
    """The definition of :func:`triton_output`."""
    depth, height, width = windows[0].size
    both = [
        result.unflatten(1, geometry.padded)[:, :depth, :height, :width]
        for result, geometry in zip((own, mutual), windows, strict=True)
        if result is not None
    ]
    return x + _scaled(layer(torch.cat(both[::-1], dim=-1)), keep)


def _scaled(branch: Tensor, keep: Tensor | None) -> Tensor:
    return branch if keep is None else branch * keep.view(-1, 1, 1, 1, 1)


def largest_difference(
    device: torch.device, dtype: torch.dtype, sizes: Sizes | None = None
) -> float:
    """The largest difference from the definitions, of results and gradients, as a share of norms.

    Args:
        device: where to run.
        dtype: type of the products; the definitions are computed in float32.
        sizes: channels, map (D, H, W) and window of each trial; if not given those of the
            published model, on a GPU with a larger map.

    Returns:
        NaN where any result or gradient holds one.
    """
    differences: list[float] = []
    on_gpu = device.type == "cuda"
    sizes = sizes or (*_SIZES, *(_SIZE_CUDA if on_gpu else ()))
    with isolated(device):
        for channels, size, window in sizes:
            if not fits(channels):
                raise ValueError(f"the kernels do not take {channels} channels")
            for found, expected in _trials(channels, size, window, device, dtype):
                with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
                    ours = found()
                theirs = expected()
                differences += shares_of_norm(ours, theirs)
    return largest(differences)


Trial = tuple[Callable[[], list[Tensor]], Callable[[], list[Tensor]]]


def _trials(
    channels: int, size: Size3, window: Size3, device: torch.device, dtype: torch.dtype
) -> list[Trial]:
    """Pairs of the same results, by the kernels and by the definitions."""
    windows = (
        clip_window(size, window, shifted=True, mutual=False),
        clip_window(size, window, shifted=True, mutual=True),
    )
    maps = layout(*windows)
    norm, mlp = nn.LayerNorm(channels), GEGLU(channels, 2 * channels)
    plain = FeedForward(channels, 2 * channels)
    own, mutual = nn.Linear(channels, 3 * channels), nn.Linear(channels, 3 * channels)
    alone, both = nn.Linear(channels, channels), nn.Linear(2 * channels, channels)
    for layer in (norm, mlp, plain, own, mutual, alone, both):
        layer.to(device)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    code = torch.randn(windows[1].window[1] * windows[1].window[2], channels).to(device)
    x = torch.randn(_SAMPLES, *size, channels).to(device)
    results = [torch.randn(_SAMPLES, n, channels).to(device) for n in maps[1:3]]
    keep = torch.tensor(_KEEP, device=device)

    def trial(
        found: Function, expected: Function, inputs: list[Tensor], *layers: nn.Module
    ) -> Trial:
        leaves = [*inputs, *(p for layer in layers for p in layer.parameters())]
        return (lambda: _results(found, inputs, leaves)), (
            lambda: _results(expected, inputs, leaves)
        )

    def fed(layer: GEGLU | FeedForward, factors: Tensor | None) -> Trial:
        return trial(
            lambda t: triton_feed_forward(t, norm, layer, factors),
            lambda t: feed_forward(t, norm, layer, factors),
            [x],
            norm,
            layer,
        )

    def projected(
        second: nn.Linear | None,
        places: Tensor | None,
        factors: Tensor | None = None,
        streams: int = 1,
    ) -> Trial:
        # A sample that is left out has no projections.
        shown = 0 if factors is None else 1

        def taken(outs: tuple[tuple[Tensor, Tensor], Tensor, Tensor]) -> tuple[Tensor, ...]:
            through, *both = outs
            return *through[:streams], *(out[shown:] for out in both)

        return trial(
            lambda t: taken(triton_projections(t, norm, own, second, places, maps, factors)),
            lambda t: taken(projections(t, norm, own, second, places, windows)),
            [x],
            *([norm, own] if second is None else [norm, own, second]),
        )

    def joined(second: bool, layer: GEGLU | FeedForward, factors: Tensor | None) -> Trial:
        last, given = (both, [x, *results]) if second else (alone, [x, results[0]])
        fed_factors = None if factors is None else factors.flip(0)

        def found(t: Tensor, a: Tensor, b: Tensor | None = None) -> Tensor:
            return triton_joined(t, last, a, b, maps, norm, layer, factors, fed_factors)

        def expected(t: Tensor, a: Tensor, b: Tensor | None = None) -> Tensor:
            between = output(t, last, a, b, windows, factors)
            return feed_forward(between, norm, layer, fed_factors)

        return trial(found, expected, given, last, norm, layer)

    kinds = ((True, mlp, keep), (False, plain, None)) if has_room(device, dtype) else ()
    return [
        *(joined(*kind) for kind in kinds),
        fed(mlp, keep),
        fed(mlp, None),
        fed(plain, None),
        projected(mutual, code),
        projected(mutual, code, keep, 2),
        projected(None, None, None, 2),
        trial(
            lambda t, a, b: triton_output(t, both, a, b, maps, keep),
            lambda t, a, b: output(t, both, a, b, windows, keep),
            [x, *results],
            both,
        ),
        trial(
            lambda t, a: triton_output(t, alone, a, None, maps),
            lambda t, a: output(t, alone, a, None, windows, None),
            [x, results[0]],
            alone,
        ),
    ]


def _results(function: Function, inputs: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """Outputs and gradients of leaves, the inputs among them."""
    for tensor in inputs:
        tensor.requires_grad_()
    outs = function(*inputs)
    outs = tuple(out for out in (outs if isinstance(outs, tuple) else (outs,)) if out.numel())
    grads = [
        torch.linspace(-1, 2, out.numel(), device=out.device).view_as(out).to(out.dtype)
        for out in outs
    ]
    found = torch.autograd.grad(outs, leaves, grads)
    return [*(out.detach() for out in outs), *found]
