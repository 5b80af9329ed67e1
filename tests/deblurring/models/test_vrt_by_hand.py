"""The backbone against its definition, written out in plain PyTorch, with motion between frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.ops import deform_conv2d

from vrtspike.deblurring.models.attention import BlockOptions, WindowAttention
from vrtspike.deblurring.models.flow import SpyNet
from vrtspike.deblurring.models.layers import GEGLU
from vrtspike.deblurring.models.stages import ReconstructionGroup, Stage
from vrtspike.deblurring.models.tmsa import TMSABlock, TMSAGroup
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.windows import PlanCache

Build = Callable[..., VRT]
Size3 = tuple[int, int, int]


def randomise(module: nn.Module) -> None:
    """Random parameters, also where layers start at zero or one: nothing is without effect."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        scale = 1.0 if parameter.dim() < 2 else parameter[0].numel() ** -0.5
        nn.init.normal_(parameter, std=scale)


def geglu(layer: GEGLU, x: Tensor) -> Tensor:
    return layer.fc2(functional.gelu(layer.fc11(x)) * layer.fc12(x))


def sine_code(row: int, column: int, window: Size3, channels: int) -> Tensor:
    """DETR's code of a place: the row in the first half of the channels, then the column."""
    half = channels // 2
    code = []
    for place, length in ((row, window[1]), (column, window[2])):
        angle = 2 * math.pi * (place + 1) / length
        for channel in range(half):
            wave = math.sin if channel % 2 == 0 else math.cos
            code.append(wave(angle / 10000 ** (2 * (channel // 2) / half)))
    return torch.tensor(code, dtype=torch.float64)


def windows_of(size: Size3, window: Size3, shifted: bool) -> Iterator[list[tuple[Size3, Size3]]]:
    """For each window the place of every token in the map, and the region it belongs to.

    Windows that are cut by a border hold parts of opposite sides, which do not see each other.
    """
    lengths = [-(-s // w) * w for s, w in zip(size, window, strict=True)]
    shifts = [w // 2 if shifted and s > w else 0 for s, w in zip(size, window, strict=True)]

    def region(axis: int, place: int) -> int:
        start, wrapped = lengths[axis] - window[axis], lengths[axis] - shifts[axis]
        return 0 if not shifts[axis] or place < start else 1 + (place >= wrapped)

    for corner in product(*(range(0, s, w) for s, w in zip(lengths, window, strict=True))):
        tokens = []
        for offset in product(*map(range, window)):
            rolled = [c + o for c, o in zip(corner, offset, strict=True)]
            place = [(p + s) % n for p, s, n in zip(rolled, shifts, lengths, strict=True)]
            regions = [region(axis, p) for axis, p in enumerate(rolled)]
            tokens.append(((place[0], place[1], place[2]), (regions[0], regions[1], regions[2])))
        yield tokens


def attention(qkv: Tensor, other: Tensor, heads: int, bias: Tensor) -> Tensor:
    """Queries of the tokens ``qkv`` (N, 3C) to keys and values of the tokens ``other``."""
    q, k, v = (
        t.chunk(3, dim=1)[i].unflatten(1, (heads, -1)).transpose(0, 1)
        for i, t in enumerate((qkv, other, other))
    )
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) + bias
    return (scores.softmax(dim=-1) @ v).transpose(0, 1).flatten(1)


def window_attention_by_hand(
    layer: WindowAttention, x: Tensor, window: Size3, shifted: bool
) -> Tensor:
    """(D, H, W, C) normalised features -> the same; ``window`` is the full one."""
    size: Size3 = (x.shape[0], x.shape[1], x.shape[2])
    own: Size3 = tuple(min(s, w) for s, w in zip(size, window, strict=True))  # type: ignore[assignment]
    pair: Size3 = (2, own[1], own[2])
    parts = []
    for mutual in (True, False) if layer.mutual else (False,):
        used = pair if mutual else own
        padded = torch.zeros(
            *(-(-s // w) * w for s, w in zip(size, used, strict=True)), x.shape[-1], dtype=x.dtype
        )
        padded[: size[0], : size[1], : size[2]] = x
        result = torch.zeros_like(padded)
        for tokens in windows_of(size, used, shifted):
            places = torch.tensor([place for place, _ in tokens]).T
            regions = torch.tensor([region for _, region in tokens])
            seen = (regions[:, None] == regions[None]).all(dim=-1)
            mask = torch.where(seen, 0.0, -100.0)
            rows = padded[tuple(places)]
            half = len(tokens) // 2
            if mutual:
                within = list(product(*map(range, used)))
                code = torch.stack([sine_code(h, w, window, x.shape[-1]) for _, h, w in within])
                qkv = layer.qkv_mut(rows + code)
                first, second = qkv[:half], qkv[half:]
                # Both directions have the mask of the first frame, as in the published model.
                bias = mask[:half, :half]
                found = torch.cat(
                    (
                        attention(second, first, layer.heads, bias),
                        attention(first, second, layer.heads, bias),
                    )
                )
            else:
                full = list(product(*map(range, window)))[: len(tokens)]
                relative = torch.zeros(layer.heads, len(tokens), len(tokens), dtype=x.dtype)
                for (i, a), (j, b) in product(enumerate(full), repeat=2):
                    row = 0
                    for p, q, length in zip(a, b, window, strict=True):
                        row = row * (2 * length - 1) + (p - q + length - 1)
                    relative[:, i, j] = layer.relative_position_bias_table[row]
                qkv = layer.qkv_self(rows)
                found = attention(qkv, qkv, layer.heads, relative + mask)
            result[tuple(places)] = found
        parts.append(result[: size[0], : size[1], : size[2]])
    return layer.proj(torch.cat(parts, dim=-1))


@pytest.mark.parametrize("mutual", [True, False])
@pytest.mark.parametrize("recompute", ["cheap", "none"])
@pytest.mark.parametrize("size", [(3, 4, 6), (2, 3, 2)])  # padded; clipped, in rows also the index
def test_blocks_by_hand(size: Size3, mutual: bool, recompute: str) -> None:
    window = (2, 2, 4)
    options = BlockOptions(recompute=recompute)  # type: ignore[arg-type]
    group = TMSAGroup(
        8,
        window,
        2,
        mutual=mutual,
        mlp_ratio=1.5,
        drop_path=(0.0, 0.0, 0.0),
        options=options,
        plans=PlanCache(),
    ).double()
    randomise(group)
    torch.manual_seed(1)
    x = torch.randn(1, *size, 8, dtype=torch.float64)
    expected = x[0]
    for number, block in enumerate(group.blocks):
        assert isinstance(block, TMSABlock)
        normed = functional.layer_norm(expected, (8,), block.norm1.weight, block.norm1.bias)
        # Of three blocks the second has its windows shifted.
        found = window_attention_by_hand(block.attn, normed, window, number == 1)
        expected = expected + found
        normed = functional.layer_norm(expected, (8,), block.norm2.weight, block.norm2.bias)
        expected = expected + geglu(block.mlp, normed)
    torch.testing.assert_close(group(x)[0], expected, rtol=1e-5, atol=1e-5)


def sampled(x: Tensor, flow: Tensor, padding: str) -> Tensor:
    """(N, C, H, W) at p + flow(p), the flow (N, 2, H, W) with x first."""
    height, width = x.shape[-2:]
    y, x_ = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    column, row = x_ + flow[:, 0], y + flow[:, 1]
    if padding == "border":
        column, row = column.clamp(0, width - 1), row.clamp(0, height - 1)
    result = torch.zeros_like(x)
    for dy, dx in product((0, 1), (0, 1)):
        r, c = row.floor() + dy, column.floor() + dx
        weight = (1 - (row - r).abs()) * (1 - (column - c).abs())
        weight = weight * ((r >= 0) & (r < height) & (c >= 0) & (c < width))
        place = (r.clamp(0, height - 1) * width + c.clamp(0, width - 1)).long()
        picked = x.flatten(2).gather(2, place.flatten(1)[:, None].expand(-1, x.shape[1], -1))
        result += weight[:, None] * picked.unflatten(2, (height, width))
    return result


def test_flow_by_hand() -> None:
    net = SpyNet().double()
    randomise(net)
    torch.manual_seed(1)
    reference, supporting = torch.rand(2, 1, 3, 40, 56, dtype=torch.float64)

    def pyramid(x: Tensor) -> list[Tensor]:
        x = functional.interpolate(x, (64, 64), mode="bilinear", align_corners=False)
        mean = torch.tensor([0.485, 0.456, 0.406], dtype=x.dtype).view(3, 1, 1)
        std = torch.tensor([0.229, 0.224, 0.225], dtype=x.dtype).view(3, 1, 1)
        levels = [(x - mean) / std]
        for _ in range(5):
            levels.append(functional.avg_pool2d(levels[-1], 2))
        return levels[::-1]

    flow = torch.zeros(1, 2, 2, 2, dtype=torch.float64)
    flows = []
    for level, (a, b) in enumerate(zip(pyramid(reference), pyramid(supporting), strict=True)):
        module = net.get_submodule(f"basic_module.{level}.basic_module")
        if level:
            size = a.shape[-2:]
            flow = 2 * functional.interpolate(flow, size, mode="bilinear", align_corners=True)
        guess = torch.cat((a, sampled(b, flow, "border"), flow), dim=1)
        flow = flow + module(guess)
        flows.append(flow)
    found = net(reference, supporting)
    for scale in range(4):
        height, width = 40 // 2**scale, 56 // 2**scale
        expected = functional.interpolate(
            flows[5 - scale], (height, width), mode="bilinear", align_corners=False
        )
        expected = torch.stack((expected[:, 0] * 56 / 64, expected[:, 1] * 40 / 64), dim=1)
        assert expected.abs().mean() > 0.1, "there is motion"
        torch.testing.assert_close(found[scale], expected, rtol=1e-4, atol=1e-4)


def aligned_by_hand(stage: Stage, x: Tensor, backward: Tensor, forward: Tensor) -> Tensor:
    """Each frame with its next and its previous one aligned to it: (T, C, H, W) -> the same."""
    layer = stage.pa_deform
    frames = []
    for t in range(len(x)):
        pieces = [x[t]]
        for neighbour, flow in (
            (t + 1, backward[t] if t + 1 < len(x) else None),
            (t - 1, forward[t - 1] if t else None),
        ):
            if flow is None:
                pieces.append(torch.zeros_like(x[t]))
                continue
            warped = sampled(x[neighbour][None], flow[None], "zeros")
            raw = torch.cat((warped, x[t][None], flow[None]), dim=1)
            for number in range(0, 7, 2):
                conv = layer.conv_offset.get_submodule(str(number))
                raw = functional.conv2d(raw, conv.weight, conv.bias, padding=1)
                raw = raw if number == 6 else torch.where(raw > 0, raw, 0.1 * raw)
            offset, mask = raw[:, : 18 * layer.groups], raw[:, 18 * layer.groups :]
            offset = layer.max_magnitude * offset.tanh()
            offset = offset + flow.flip(0)[None].repeat(1, 9 * layer.groups, 1, 1)
            pieces.append(
                deform_conv2d(
                    x[neighbour][None], offset, layer.weight, layer.bias, padding=1,
                    mask=1 / (1 + torch.exp(-mask)),
                )[0]
            )  # fmt: skip
        frames.append(geglu(stage.pa_fuse, torch.cat(pieces).permute(1, 2, 0)).permute(2, 0, 1))
    return torch.stack(frames)


def scaled(x: Tensor, direction: str) -> Tensor:
    """2 x 2 pixels onto the channels, by columns and then rows, or back: (T, H, W, C)."""
    if direction == "down":
        corners = [(0, 0), (1, 0), (0, 1), (1, 1)]
        return torch.cat([x[:, row::2, column::2] for row, column in corners], dim=-1)
    if direction == "up":
        t, h, w, c = x.shape
        result = torch.zeros(t, 2 * h, 2 * w, c // 4, dtype=x.dtype)
        for part, (row, column) in zip(
            x.chunk(4, -1), [(0, 0), (1, 0), (0, 1), (1, 1)], strict=True
        ):
            result[:, row::2, column::2] = part
        return result
    return x


@pytest.mark.parametrize("frames", [1, 3])
def test_the_network_by_hand(small_vrt: Build, frames: int) -> None:
    vrt = small_vrt(mul_attn_ratio=0.5).double().eval()
    randomise(vrt)
    with torch.no_grad():  # a pixel or so: alignment within the picture
        for level in vrt.spynet.basic_module:
            for parameter in level.get_submodule("basic_module.8").parameters():
                parameter *= 0.3
    torch.manual_seed(1)
    x = torch.rand(1, frames, 3, 14, 16, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(vrt(x)[0], by_hand(vrt, x[0]), rtol=1e-4, atol=1e-4)


def by_hand(vrt: VRT, x: Tensor) -> Tensor:
    """(T, 3, 14, 16), whose last two rows are reflected."""
    padded = torch.cat((x, x[:, :, [12, 11]]), dim=2)
    frames = len(x)
    none = [torch.zeros(0)] * 4
    backward = vrt.spynet(padded[:-1], padded[1:]) if frames > 1 else none
    forward = vrt.spynet(padded[1:], padded[:-1]) if frames > 1 else none

    def corners(picture: Tensor, flow: Tensor) -> Tensor:
        y, column = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
        found = []
        for move_x, move_y in product((torch.floor, torch.ceil), repeat=2):
            c, r = move_x(column + flow[0]).long(), move_y(y + flow[1]).long()
            inside = (c >= 0) & (c < 16) & (r >= 0) & (r < 16)
            found.append(picture[:, r.clamp(0, 15), c.clamp(0, 15)] * inside)
        return torch.cat(found)

    inputs = []
    for t in range(frames):
        nothing = torch.zeros(12, 16, 16, dtype=x.dtype)
        after = corners(padded[t + 1], backward[0][t].float()) if t + 1 < frames else nothing
        before = corners(padded[t - 1], forward[0][t - 1].float()) if t else nothing
        inputs.append(torch.cat((padded[t], after, before)))

    def conv(layer: nn.Conv3d, pictures: Tensor) -> Tensor:
        return functional.conv2d(pictures, layer.weight[:, :, 0], layer.bias, padding=1)

    first = conv(vrt.conv_first, torch.stack(inputs)).permute(0, 2, 3, 1)
    y, outputs = first, []
    plan = zip(
        (0, 1, 2, 3, 2, 1, 0), ("none", "down", "down", "down", "up", "up", "up"), strict=True
    )
    for number, (scale, direction) in enumerate(plan):
        stage = vrt.get_submodule(f"stage{number + 1}")
        assert isinstance(stage, Stage)
        if number in (5, 6):
            # Stages 6 and 7 go on with what stages 3 and 2 made at their scale.
            y = y + outputs[7 - number]
        y = scaled(y, direction)
        for layer in stage.reshape:
            if isinstance(layer, nn.LayerNorm | nn.Linear):
                y = layer(y)
        y = y + stage.linear1(stage.residual_group1(y[None])[0])
        y = y + stage.linear2(stage.residual_group2(y[None])[0])
        channels_first = y.permute(0, 3, 1, 2)
        y = aligned_by_hand(stage, channels_first, backward[scale], forward[scale])
        y = y.permute(0, 2, 3, 1)
        outputs.append(y)
    enter, *groups = vrt.stage8
    y = enter(y + outputs[0])
    for group in groups:
        assert isinstance(group, ReconstructionGroup)
        y = y + group.linear(group.residual_group(y[None])[0])
    features = first + vrt.conv_after_body(vrt.norm(y))
    return x + conv(vrt.conv_last, features.permute(0, 3, 1, 2))[:, :, :14]


def test_what_blocks_and_stages_are_told(small_vrt: Build) -> None:
    vrt = small_vrt(
        depths=(4, 2, 1, 1, 1, 1, 2, 2, 1),
        window_size=(3, 4, 8),
        drop_path_rate=0.28,
        mul_attn_ratio=0.75,
    )
    rates, mutual, windows = [], [], []
    for name, module in vrt.named_modules():
        if isinstance(module, TMSABlock):
            rates.append(module.drop_path.rate)
            if name.startswith("stage1."):
                mutual.append(module.attn.mutual)
                windows.append(module.attn.window)
    # From 0 for the first of the 15 blocks to the given rate for the last, in equal steps.
    assert rates == pytest.approx([0.28 * i / 14 for i in range(15)])
    assert mutual == [True, True, True, False]
    assert windows == [*[(2, 4, 8)] * 3, (3, 4, 8)]
    stages = [vrt.get_submodule(f"stage{n}") for n in range(1, 8)]
    bounds = [stage.pa_deform.max_magnitude for stage in stages]
    assert bounds == [10, 5, 2.5, 1.25, 2.5, 5, 10]
    eighth = [vrt.get_submodule(f"stage8.{n}.residual_group.blocks.0.attn") for n in (1, 2)]
    assert [attn.window for attn in eighth] == [(3, 4, 8), (1, 4, 8)]


def test_spikes_are_fused_after_the_first_four_stages(small_vrt: Build) -> None:
    vrt = small_vrt()
    seen: list[tuple[int, tuple[int, ...]]] = []

    def fuse(scale: int, x: Tensor) -> Tensor:
        seen.append((scale, tuple(x.shape)))
        return x + 1

    x = torch.rand(1, 2, 3, 16, 24)
    randomise(vrt.conv_last)
    assert not torch.equal(vrt(x, fuse), vrt(x)), "what it returns takes the place"
    assert seen == [(s, (1, 2, 16 // 2**s, 24 // 2**s, 8)) for s in range(4)]
