"""FLOPs of operations that PyTorch's counter cannot see into."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from vrtspike.deblurring.models.chunking import ChunkPolicy
from vrtspike.deblurring.models.temporal_attention import SpikeTemporalSA

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_attention_along_time_counts_all_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from operation_flops import step_flops

    channels, frames, pixels = 8, 3, 20
    x = torch.randn(2, frames, 4, 5, channels, requires_grad=True)
    # qkv C -> 3C, proj C -> C, two layers C -> 2C -> C; each token with each frame, twice.
    linear = 2 * (3 + 1 + 2 + 2) * channels**2
    attention = 2 * 2 * frames * channels
    forward = 2 * frames * pixels * (linear + attention)
    # The backward pass makes two products of each one.
    assert step_flops(SpikeTemporalSA(channels, 2, frames - 1, ChunkPolicy()), (x,)) == 3 * forward
