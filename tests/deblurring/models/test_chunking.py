"""Some pixels at a time: how many, and with the result of all at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vrtspike.deblurring.models.chunking import ChunkPolicy, map_pixels
from vrtspike.deblurring.models.temporal_attention import SpikeTemporalSA, TemporalCrossAttn

POLICIES = [
    ChunkPolicy(max_tokens=1),
    ChunkPolicy(max_tokens=100),
    ChunkPolicy(max_tokens=10**9),
    ChunkPolicy(adaptive=False, size=4),
    ChunkPolicy(adaptive=False, size=1),
    ChunkPolicy(adaptive=False, size=640),
]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_chunks_do_not_change_the_result(policy: ChunkPolicy, training: bool) -> None:
    torch.manual_seed(0)
    x, spikes = torch.randn(2, 2, 3, 5, 9, 8, dtype=torch.float64)
    whole = ChunkPolicy(max_tokens=10**9)
    attention = SpikeTemporalSA(8, 4, 2, whole, checkpoint=training).double()
    fusion = TemporalCrossAttn(8, 4, 2, whole, identity=False, checkpoint=training).double()

    def run() -> tuple[Tensor, Tensor]:
        with torch.set_grad_enabled(training):
            return attention(x), fusion(x, spikes)

    expected = run()
    attention.chunks = fusion.chunks = policy
    torch.testing.assert_close(run(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("policy", "keeps", "count"),
    [
        (ChunkPolicy(max_tokens=100), False, 6),  # 540 tokens
        (ChunkPolicy(max_tokens=100), True, 1),
        (ChunkPolicy(max_tokens=540), False, 1),
        (ChunkPolicy(max_tokens=1), False, 90),  # one pixel at least
        (ChunkPolicy(adaptive=False, size=4), False, 6),
        (ChunkPolicy(adaptive=False, size=4), True, 6),
        (ChunkPolicy(adaptive=False, size=640), False, 1),
    ],
)
def test_how_many_chunks(policy: ChunkPolicy, keeps: bool, count: int) -> None:
    assert policy.chunks(2 * 3 * 90, 90, keeps=keeps) == count
    x, sizes = torch.randn(2, 3, 9, 10, 4, requires_grad=True), []

    def layer(piece: Tensor) -> Tensor:
        sizes.append(piece.shape[2])
        return -piece

    # Checkpointed, or without gradients, nothing is kept.
    for checkpoint in (False,) if keeps else (True,):
        out = map_pixels(layer, policy, checkpoint, x)
        assert torch.equal(out, -x)
        assert len(sizes) == count
        assert sum(sizes) == 90
        assert max(sizes) - min(sizes) <= 1
    sizes.clear()
    with torch.no_grad():
        map_pixels(layer, policy, False, x)
    assert len(sizes) == policy.chunks(2 * 3 * 90, 90, keeps=False)
