"""Attention along time at each pixel."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch.nn import functional

from vrtspike.deblurring.models.temporal_attention import (
    RelativeTime,
    SpikeTemporalSA,
    TemporalCrossAttn,
    chunk_count,
)
from vrtspike.deblurring.settings.model import FuseSettings, TemporalAttentionSettings

CLIP = 5
OLDER = TemporalAttentionSettings(HEADS=2, TIME_BIAS=True)


def test_fusion_adds_to_features_in_float32() -> None:
    x, spikes = torch.randn(2, 1, CLIP, 2, 2, 8)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        keys = {"HEADS": 2, "TIME_BIAS": True, "DIRECT": True}
        fusion = TemporalCrossAttn(8, FuseSettings(**keys, INIT="random"), CLIP - 1)
        assert fusion(x, spikes.bfloat16()).dtype == torch.float32
        unchanged = TemporalCrossAttn(8, FuseSettings(**keys), CLIP - 1)
        assert torch.equal(unchanged(x, spikes), x), "features are not rounded"


def test_attention_runs_along_time_only() -> None:
    torch.manual_seed(0)
    layer = SpikeTemporalSA(8, OLDER, 2)
    x = torch.randn(1, 3, 4, 4, 8, requires_grad=True)
    # A random direction: the layer norms take out any that is equal on all channels.
    (layer(x)[0, 1, 2, 3] * torch.randn(8)).sum().backward()
    assert x.grad is not None
    seen = x.grad[0].abs().amax(dim=-1)
    assert (seen[:, 2, 3] > 1e-3).all(), "every frame of the pixel counts"
    seen[:, 2, 3] = 0
    assert not seen.any(), "no other pixel does"


def attended(qkv: torch.Tensor, time: RelativeTime | None) -> torch.Tensor:
    """Attention of two heads of four channels along the frames of one pixel, (1, T, 1, 1, 24)."""
    frames = qkv.shape[1]
    q, k, v = qkv.view(frames, 3, 2, 4).permute(1, 2, 0, 3)
    scores = q @ k.transpose(-2, -1) / 2
    for head, slope in enumerate(() if time is None else (4, 0.5)):
        for t, other in product(range(frames), repeat=2):
            learned = time.correction[head, max(-1, min(other - t, 1)) + 1]
            scores[head, t, other] += learned - slope * abs(other - t)
    return (scores.softmax(-1) @ v).transpose(0, 1).reshape(1, frames, 1, 1, 8)


@pytest.mark.parametrize("older", [False, True])
def test_fusion_by_hand(older: bool) -> None:
    torch.manual_seed(0)
    settings = FuseSettings(HEADS=2, INIT="random", TIME_BIAS=older, DIRECT=older)
    layer = TemporalCrossAttn(8, settings, 1)
    if layer.time is not None:
        torch.nn.init.normal_(layer.time.correction)
    x, spikes = 3 * torch.randn(2, 1, 4, 1, 1, 8)
    x1, direct = x, layer.direct
    assert (direct is not None) == (layer.time is not None) == older
    if direct is not None:
        u = torch.cat((layer.norm_direct(x), spikes), dim=-1)
        x1 = x + direct.fc2(functional.gelu(direct.fc11(u)) * direct.fc12(u))
    key_value = layer.key_value(layer.norm_spikes(spikes))
    qkv = torch.cat((layer.query(layer.norm_query(x1)), key_value), dim=-1)
    middle = x1 + layer.proj(attended(qkv, layer.time))
    first, _, last = layer.mlp
    expected = middle + last(functional.gelu(first(layer.norm2(middle))))
    torch.testing.assert_close(layer(x, spikes), expected)


def test_self_attention_along_time_by_hand() -> None:
    torch.manual_seed(0)
    layer = SpikeTemporalSA(8, OLDER, 1).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(1, 3, 1, 1, 8, dtype=torch.float64)
    norm1, norm2 = layer.norm1, layer.norm2
    normed = functional.layer_norm(x, (8,), norm1.weight, norm1.bias)
    middle = x + layer.proj(attended(layer.qkv(normed), layer.time))
    normed = functional.layer_norm(middle, (8,), norm2.weight, norm2.bias)
    first, last = layer.mlp[0], layer.mlp[2]
    expected = middle + last(functional.gelu(first(normed)))
    torch.testing.assert_close(layer(x), expected)


def test_every_difference_has_its_own_value() -> None:
    time = RelativeTime(heads=1, reach=2)
    with torch.no_grad():
        time.correction[0] = torch.tensor([10.0, 20.0, 30.0, 40.0, 50.0])
    # Row: the frame that asks; column: the frame that is asked. 40 is "one frame later".
    steep = torch.tensor([[0.0, 4, 8], [4, 0, 4], [8, 4, 0]])
    learned = torch.tensor([[30.0, 40, 50], [20, 30, 40], [10, 20, 30]])
    torch.testing.assert_close(time(3)[0], learned - steep)


@pytest.mark.parametrize("frames", [1, 2, 9, 33])
def test_clips_may_be_shorter_and_longer_than_in_training(frames: int) -> None:
    time = RelativeTime(heads=2, reach=2)
    torch.nn.init.normal_(time.correction)
    found = time(frames)
    assert found.shape == (2, frames, frames)
    inner = time(3)
    torch.testing.assert_close(
        found[:, : min(frames, 3), : min(frames, 3)], inner[:, :frames, :frames]
    )
    for difference in range(3, frames):
        # The outermost value that was learned, and the slope that goes on.
        for sign, column in ((1, 4), (-1, 0)):
            query = 0 if sign == 1 else difference
            expected = time.correction[:, column] - time.slopes * difference
            torch.testing.assert_close(found[:, query, query + sign * difference], expected)


@pytest.mark.parametrize(
    "keys",
    [
        {"MAX_BATCH_TOKENS": 1},
        {"MAX_BATCH_TOKENS": 100},
        {"ADAPTIVE_CHUNK": False, "CHUNK_SIZE": 4},
        {"ADAPTIVE_CHUNK": False, "CHUNK_SIZE": 640},
    ],
    ids=str,
)
@pytest.mark.parametrize("training", [False, True])
def test_chunks_do_not_change_the_result(keys: dict[str, int], training: bool) -> None:
    torch.manual_seed(0)
    x, spikes = torch.randn(2, 2, 3, 5, 9, 8, dtype=torch.float64)
    own, fuse = TemporalAttentionSettings(), FuseSettings(INIT="random")
    attention = SpikeTemporalSA(8, own, 2, checkpoint=training).double()
    fusion = TemporalCrossAttn(8, fuse, 2, checkpoint=training).double()
    sizes: list[int] = []

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        sizes.clear()
        with torch.set_grad_enabled(training):
            return attention(x), fusion(x, spikes)

    expected = run()
    attention.settings = own.model_copy(update=keys)
    fusion.settings = fuse.model_copy(update=keys)
    attention.qkv.register_forward_pre_hook(lambda _, given: sizes.append(given[0].shape[2]))
    torch.testing.assert_close(run(), expected, rtol=0, atol=1e-12)
    assert len(sizes) == chunk_count(attention.settings, 2 * 3 * 45, 45, keeps=False)
    assert sum(sizes) == 45
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("keys", "keeps", "count"),
    [
        ({"MAX_BATCH_TOKENS": 100}, False, 6),  # 540 tokens
        ({"MAX_BATCH_TOKENS": 100}, True, 1),
        ({"MAX_BATCH_TOKENS": 540}, False, 1),
        ({"MAX_BATCH_TOKENS": 1}, False, 90),  # one pixel at least
        ({"ADAPTIVE_CHUNK": False, "CHUNK_SIZE": 4}, False, 6),
        ({"ADAPTIVE_CHUNK": False, "CHUNK_SIZE": 4}, True, 6),
        ({"ADAPTIVE_CHUNK": False, "CHUNK_SIZE": 640}, False, 1),
    ],
)
def test_how_many_chunks(keys: dict[str, int], keeps: bool, count: int) -> None:
    settings = TemporalAttentionSettings(**keys)
    assert chunk_count(settings, 2 * 3 * 90, 90, keeps=keeps) == count
