"""Attention along time at each pixel."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from vrtspike.deblurring_settings.model import FuseSettings, TemporalAttentionSettings
from vrtspike.models.temporal_attention import TemporalCrossAttention, TemporalSelfAttention

TWO_HEADS = TemporalAttentionSettings(HEADS=2)


def test_fusion_adds_to_features_in_float32() -> None:
    x, spikes = torch.randn(2, 1, 5, 2, 2, 8)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        fusion = TemporalCrossAttention(8, FuseSettings(HEADS=2, INIT="random"))
        assert fusion(x, spikes.bfloat16()).dtype == torch.float32
        unchanged = TemporalCrossAttention(8, FuseSettings(HEADS=2))
        assert torch.equal(unchanged(x, spikes), x), "features are not rounded"


def test_attention_runs_along_time_only() -> None:
    torch.manual_seed(0)
    layer = TemporalSelfAttention(8, TWO_HEADS)
    x = torch.randn(1, 3, 4, 4, 8, requires_grad=True)
    # A random direction: the layer norms take out any that is equal on all channels.
    (layer(x)[0, 1, 2, 3] * torch.randn(8)).sum().backward()
    assert x.grad is not None
    gradient = x.grad[0].abs().amax(dim=-1)
    assert (gradient[:, 2, 3] > 1e-3).all(), "every frame of the pixel counts"
    gradient[:, 2, 3] = 0
    assert not gradient.any(), "no other pixel does"


@pytest.mark.parametrize("fused", [False, True])
def test_layers_are_attention_along_time_at_each_pixel(fused: bool) -> None:
    """Two heads of four channels along the four frames of one pixel."""
    torch.manual_seed(0)
    x, spikes = 3 * torch.randn(2, 4, 8, dtype=torch.float64)
    layer: TemporalSelfAttention | TemporalCrossAttention
    if fused:
        layer = TemporalCrossAttention(8, FuseSettings(HEADS=2, INIT="random")).double()
        key_value = layer.key_value(layer.norm_spikes(spikes))
        qkv = torch.cat((layer.query(layer.norm_query(x)), key_value), dim=-1)
        result = layer(x.view(1, 4, 1, 1, 8), spikes.view(1, 4, 1, 1, 8))
    else:
        layer = TemporalSelfAttention(8, TWO_HEADS).double()
        qkv = layer.qkv(layer.norm1(x))
        result = layer(x.view(1, 4, 1, 1, 8))
    q, k, v = qkv.view(4, 3, 2, 4).permute(1, 2, 0, 3)
    attended = ((q @ k.transpose(-2, -1) / 2).softmax(-1) @ v).transpose(0, 1).flatten(1)
    middle = x + layer.proj(attended)
    first, _, last = layer.mlp
    expected = middle + last(functional.gelu(first(layer.norm2(middle))))
    torch.testing.assert_close(result.view(4, 8), expected)


FIXED = {"ADAPTIVE_CHUNK": False}


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({"MAX_BATCH_TOKENS": 100}, 3),  # of 270 tokens
        ({"MAX_BATCH_TOKENS": 270}, 1),
        ({"MAX_BATCH_TOKENS": 1}, 45),  # one pixel at least
        ({"CHUNK_SIZE": 4, **FIXED}, 3),
        ({"CHUNK_SIZE": 640, **FIXED}, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["restoring", "recomputing", "training"])
def test_chunks_of_pixels_do_not_change_the_result(
    keys: dict[str, int], count: int, mode: str
) -> None:
    torch.manual_seed(0)
    x, spikes = torch.randn(2, 2, 3, 5, 9, 8, dtype=torch.float64)
    again = mode == "recomputing"
    attention = TemporalSelfAttention(8, TemporalAttentionSettings(), recompute=again).double()
    fusion = TemporalCrossAttention(8, FuseSettings(INIT="random"), recompute=again).double()
    layers = ((attention, attention.qkv, (x,)), (fusion, fusion.query, (x, spikes)))
    for layer, part, inputs in layers:
        sizes: list[int] = []
        part.register_forward_pre_hook(lambda _, x, sizes=sizes: sizes.append(x[0].shape[2]))
        with torch.set_grad_enabled(mode != "restoring"):
            expected = layer(*inputs)
            layer.settings = layer.settings.model_copy(update=keys)
            sizes.clear()
            torch.testing.assert_close(layer(*inputs), expected, rtol=0, atol=1e-12)
        # What is kept for the gradient anyway is divided only where a size is asked for.
        whole = mode == "training" and "CHUNK_SIZE" not in keys
        assert len(sizes) == (1 if whole else count)
        assert sum(sizes) == 45
        assert max(sizes) - min(sizes) <= 1
