"""Voxels of frames beside a clip, where there are none."""

from __future__ import annotations

import torch

from tests.data.clips.filmed import settings
from vrtspike.data.clips.batches import prepare_batch
from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.voxels.normalization import VoxelStatistics


def test_absent_neighbours_deviate_in_no_bin(filmed):
    clips = ClipDataset(filmed, "test", settings(CLIP_LEN=1, NEIGHBOURS=True), train=False)
    statistics = VoxelStatistics(0.2, 0.4, 1)
    voxels = prepare_batch(clips.read_batch([0, 2, 4]), statistics, "cpu").voxels
    assert torch.isfinite(voxels).all()
    alone = ClipDataset(filmed, "test", settings(CLIP_LEN=5), train=False)
    single = prepare_batch(alone.read_batch([0]), statistics, "cpu").voxels[0]
    mean = single.mean(dim=1, keepdim=True).expand_as(single)
    expected = torch.stack(
        [
            torch.stack([mean[0], single[0], single[1]]),
            torch.stack([single[1], single[2], single[3]]),
            torch.stack([single[3], single[4], mean[4]]),
        ]
    )
    torch.testing.assert_close(voxels, expected)
