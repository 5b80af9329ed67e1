"""Linear layers around attention: by hand, and their kernels against the reference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.deblurring.models.checks import assert_same
from vrtspike.deblurring.models.ops.dispatch import KERNELS, REFERENCE, Compute
from vrtspike.deblurring.models.ops.projections import (
    add_linear,
    add_output,
    attention_inputs,
    norm_linear,
    operation,
)
from vrtspike.deblurring.models.ops.token_layout import (
    Geometries,
    Layout,
    fits,
    layout_of,
)
from vrtspike.deblurring.models.ops.window_attention.windows import Size3, clip_window

CHANNELS = 8
# Everything kept, and norms made again.
POLICIES = pytest.mark.parametrize("compute", [REFERENCE, Compute(recompute="cheap")])
MUTUAL = pytest.mark.parametrize("mutual", [False, True])


def windows_of(size: Size3, window: Size3, *, mutual: bool) -> Geometries:
    own = clip_window(size, window, shifted=True, mutual=False)
    return own, clip_window(size, window, shifted=True, mutual=True) if mutual else None


def layers_of(*sizes: int) -> list[nn.Module]:
    torch.manual_seed(0)
    norm = nn.LayerNorm(CHANNELS)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return [layer.double() for layer in (norm, *(nn.Linear(CHANNELS, size) for size in sizes))]


@POLICIES
@MUTUAL
@pytest.mark.parametrize("size", [(3, 8, 6), (1, 5, 9)])
def test_projections_by_hand(size: Size3, mutual: bool, compute: Compute) -> None:
    windows = windows_of(size, (2, 4, 3), mutual=mutual)
    norm, own, second = layers_of(24, 24)
    code = torch.randn(4, 3, CHANNELS, dtype=torch.double)
    x = torch.randn(2, *size, CHANNELS, dtype=torch.double, requires_grad=True)
    given = (norm, own, second if mutual else None, code if mutual else None)
    through, *found = attention_inputs(x, *given, windows, compute)
    expected = [x]
    for window, layer in zip(windows, (own, second), strict=True):
        if window is None:
            assert found[1] is None
            continue
        places = torch.zeros(2, *window.padded, CHANNELS, dtype=torch.double)
        places[:, : size[0], : size[1], : size[2]] = norm(x)
        if window.mutual:
            for row in range(window.padded[1]):
                for column in range(window.padded[2]):
                    at = (row - window.shift[1]) % 4, (column - window.shift[2]) % 3
                    places[:, :, row, column] += code[at]
        expected.append(layer(places).flatten(1, 3))
    leaves = [x, *(p for layer in given[:3] if layer is not None for p in layer.parameters())]
    assert_same([through, *(t for t in found if t is not None)], expected, leaves)


@MUTUAL
@pytest.mark.parametrize("keep", [None, torch.tensor([0.0, 1.25])])
def test_output_by_hand(mutual: bool, keep: Tensor | None) -> None:
    size: Size3 = (3, 5, 7)
    windows = windows_of(size, (2, 4, 4), mutual=mutual)
    torch.manual_seed(0)
    layer = nn.Linear((1 + mutual) * CHANNELS, CHANNELS).double()
    maps = [window.padded for window in windows if window is not None]
    x, *parts = (
        torch.randn(2, *shape, CHANNELS, dtype=torch.double, requires_grad=True)
        for shape in (size, *maps)
    )
    flat = [part.flatten(1, 3) for part in parts]
    found = add_output(x, layer, flat[0], flat[1] if mutual else None, windows, REFERENCE, keep)
    # Results of mutual attention come first in the weight.
    cropped = [part[:, :3, :5, :7] for part in reversed(parts)]
    branch = layer(torch.cat(cropped, dim=-1))
    factors = torch.ones(2, 1, 1, 1, 1) if keep is None else keep.view(2, 1, 1, 1, 1)
    assert_same([found], [x + factors * branch], [x, *parts, *layer.parameters()])
    if keep is not None:
        assert torch.equal(found[0], x[0])


@POLICIES
def test_layers_along_time_by_hand(compute: Compute) -> None:
    norm, layer, last = layers_of(24, CHANNELS)
    x, y = (
        torch.randn(2, 3, 5, CHANNELS, dtype=torch.double, requires_grad=True) for _ in range(2)
    )
    through, projected = norm_linear(x, norm, layer, compute)
    assert through is x
    assert_same([projected], [layer(norm(x))], [x, *norm.parameters(), *layer.parameters()])
    assert_same([add_linear(x, last, y, compute)], [x + last(y)], [x, y, *last.parameters()])


@pytest.mark.parametrize(
    ("size", "window", "mutual", "expected"),
    [
        ((3, 8, 12), (2, 4, 4), False, Layout(288, 384, 12)),
        ((3, 8, 12), (2, 4, 4), True, Layout(288, 384, 12, (4, 4), (2, 2))),
        ((4, 8, 3), (2, 4, 4), True, Layout(96, 96, 3, (4, 3), (2, 0))),
        ((3, 9, 12), (2, 4, 4), False, None),  # rows that windows do not divide
        ((3, 8, 13), (2, 4, 4), True, None),  # columns
        ((1, 8, 12), (2, 4, 4), True, None),  # a frame of zeros for mutual attention alone
        ((1, 8, 12), (2, 4, 4), False, Layout(96, 96, 12)),
        ((5, 8, 12), (6, 4, 4), True, None),  # five frames in one window, and three pairs
    ],
)
def test_maps_that_kernels_know(
    size: Size3, window: Size3, mutual: bool, expected: Layout | None
) -> None:
    own = clip_window(size, window, shifted=True, mutual=False)
    pairs = clip_window(size, (2, *window[1:]), shifted=True, mutual=True) if mutual else None
    assert layout_of((own, pairs)) == expected
    if expected is not None and mutual:
        assert expected.numbers == (*expected[:3], *expected.window, *expected.shift)


@pytest.mark.parametrize("kind", ["odd rows", "one frame", "wide", "runs"])
def test_where_no_kernel_fits_the_reference_runs(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = {"odd rows": (2, 9, 8), "one frame": (1, 8, 8)}.get(kind, (2, 8, 8))
    channels = 124 if kind == "wide" else 16
    windows = windows_of(size, (2, 4, 4), mutual=True)
    norm, own, mutual = nn.LayerNorm(channels), *(nn.Linear(channels, 12) for _ in range(2))
    last, code = nn.Linear(2 * channels, channels), torch.randn(4, 4, channels)
    ran = []

    def kernel(x: Tensor, *others: object) -> object:
        ran.append(x.shape)
        layout = next(o for o in others if isinstance(o, Layout))
        projected = x.new_zeros(len(x), layout.padded, 12)
        return x if isinstance(others[0], nn.Linear) else (x, projected, projected)

    monkeypatch.setattr(operation, "triton_projections", kernel)
    monkeypatch.setattr(operation, "triton_output", kernel)
    x = torch.randn(1, *size, channels)
    with torch.autocast("cpu", torch.float16), torch.no_grad():
        out = attention_inputs(x, norm, own, mutual, code, windows, KERNELS)
        maps = [torch.randn(1, o.shape[1], channels).half() for o in out[1:] if o is not None]
        assert add_output(x, last, *maps, windows, KERNELS).shape == x.shape
    assert ran == ([(1, 128, 16)] * 2 if kind == "runs" else [])


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((1, 9, 96), torch.float32, True),
        ((1, 9, 120), torch.float32, True),
        ((1, 9, 8), torch.bfloat16, True),
        ((1, 9, 128), torch.float32, False),  # with the ones beside them wider than a tile
        ((1, 9, 30), torch.float32, False),  # rows that do not begin at 16 bytes
        ((1, 9, 96), torch.float64, False),
        ((1, 9, 96), torch.float16, False),  # another half type than that of the products
        ((1, 6, 720, 1280, 120), torch.float32, True),
        ((4, 4, 720, 1280, 120), torch.float32, True),
        ((1, 9, 1080, 1920, 120), torch.float32, False),  # beyond 32 bits once it is padded
    ],
)
def test_tokens_that_kernels_take(
    shape: tuple[int, ...], dtype: torch.dtype, expected: bool
) -> None:
    assert fits(torch.empty(1, dtype=dtype).expand(shape), torch.bfloat16) == expected
