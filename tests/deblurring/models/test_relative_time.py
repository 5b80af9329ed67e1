"""The score of a distance in time, and what it makes of attention."""

from __future__ import annotations

import pytest
import torch

from vrtspike.deblurring.models.chunking import ChunkPolicy
from vrtspike.deblurring.models.relative_time import RelativeTime
from vrtspike.deblurring.models.temporal_attention import SpikeTemporalSA, TemporalCrossAttn

CLIP = 5


def fusion(*, identity: bool = False, implementation: str = "auto") -> TemporalCrossAttn:
    torch.manual_seed(0)
    layer = TemporalCrossAttn(
        8, 2, CLIP - 1, ChunkPolicy(), identity=identity, implementation=implementation
    )
    torch.nn.init.normal_(layer.time.correction)
    return layer


def test_it_starts_with_slopes() -> None:
    bias = RelativeTime(heads=4, reach=CLIP - 1)(CLIP)
    assert bias.shape == (4, CLIP, CLIP)
    for head, slope in enumerate((4, 2, 1, 0.5)):
        for query in range(CLIP):
            expected = [-slope * abs(key - query) for key in range(CLIP)]
            torch.testing.assert_close(
                bias[head, query], torch.tensor(expected, dtype=torch.float32)
            )


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
    layer = fusion()
    assert layer(*torch.randn(2, 1, frames, 2, 2, 8)).shape == (1, frames, 2, 2, 8)


def test_fusion_tells_the_order_of_the_spikes() -> None:
    layer = fusion(identity=True)
    # Only attention takes part; every frame of the picture is the same.
    torch.nn.init.normal_(layer.proj.weight)
    x = torch.randn(1, 1, 2, 2, 8).expand(1, CLIP, 2, 2, 8)
    spikes = torch.randn(1, CLIP, 2, 2, 8)
    turned = spikes.roll(1, dims=1)
    out = layer(x.reshape(x.shape), spikes)
    assert (layer(x, turned) - out).norm() > 0.1 * (out - x).norm()
    with torch.no_grad():
        layer.time.slopes.zero_()
        layer.time.correction.zero_()
    # Without the code of time the frames are a set: this is what the layer is there for.
    torch.testing.assert_close(layer(x, turned), layer(x, spikes))


def test_the_direct_path_sees_the_own_frame_and_its_amplitude() -> None:
    layer = fusion(identity=True)
    torch.nn.init.normal_(layer.direct.fc2.weight)
    x, spikes = torch.randn(2, 1, CLIP, 1, 1, 8)
    changed = spikes.clone()
    changed[:, 2] *= 2  # a layer norm would take this away
    difference = (layer(x, changed) - layer(x, spikes)).flatten(2).norm(dim=-1)[0]
    assert difference[2] > 0.1
    assert not difference[[0, 1, 3, 4]].any()


def test_fusion_adds_to_features_in_float32() -> None:
    x, spikes = torch.randn(2, 1, CLIP, 2, 2, 8)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert fusion()(x, spikes.bfloat16()).dtype == torch.float32
        assert torch.equal(fusion(identity=True)(x, spikes), x), "features are not rounded"


def test_self_attention_tells_the_order_of_its_frames() -> None:
    torch.manual_seed(0)
    layer = SpikeTemporalSA(8, 2, CLIP - 1, ChunkPolicy())
    x = torch.randn(1, CLIP, 1, 1, 8)
    order = torch.tensor([0, 2, 1, 3, 4])
    # A set of frames would give the same results in the other order.
    assert (layer(x[:, order])[:, order] - layer(x)).norm() > 0.01


@pytest.mark.parametrize("implementation", ["explicit", "fused", "recompute"])
def test_implementations_agree_on_the_bias_and_its_gradient(implementation: str) -> None:
    layer, reference = fusion(implementation=implementation), fusion(implementation="explicit")
    x, spikes = torch.randn(2, 2, 7, 3, 4, 8)
    grad = torch.randn_like(x)
    found, expected = layer(x, spikes), reference(x, spikes)
    torch.testing.assert_close(found, expected)
    for result in (found, expected):
        result.backward(grad)
    assert layer.time.correction.grad is not None
    # The head with the shallow slope; the other one starts blind to frames that are far away.
    assert (layer.time.correction.grad[1].abs() > 1e-3).all(), "every difference is learned"
    torch.testing.assert_close(
        layer.time.correction.grad, reference.time.correction.grad, rtol=1e-4, atol=1e-5
    )
