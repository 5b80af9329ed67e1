"""Batches as the model gets them: frames from 0 to 1, and standardised voxels."""

from __future__ import annotations

import numpy as np
import torch

from tests.data.clips.filmed import settings
from vrtspike.data.clips.batches import prepare_batch
from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.store.reading import Store
from vrtspike.data.voxels.normalization import VoxelStatistics


def test_batches_agree_with_the_definition_in_float64(filmed):
    clips = ClipDataset(filmed, "train", settings())
    batch = clips.read_batch([0, 1])
    statistics = VoxelStatistics(0.2, 0.4, 1)
    clip = prepare_batch(batch, statistics, "cpu")
    assert clip.blur.shape == clip.sharp.shape == (2, 3, 3, 32, 32)
    assert clip.voxels.shape == (2, 3, 8, 16, 16)
    for tensor in (clip.blur, clip.sharp, clip.voxels):
        assert tensor.dtype == torch.float32
        assert tensor.is_contiguous()
    blur = batch.blur.numpy().transpose(0, 1, 4, 2, 3) / 255
    np.testing.assert_allclose(clip.blur, blur, rtol=1e-6)
    # The second clip as another sensor sees it, with an exposure of other bins.
    batch.spikes.gain[1] *= 1.5
    batch.spikes.bin_steps[1, 2] += 3
    clip = prepare_batch(batch, statistics, "cpu")
    steps = np.tile([4, 2, 1, 1, 1, 2, 5, 8], (2, 3, 1))
    steps[1, 2] += 3
    gain = Store(filmed.split("train")[0].store).gain * np.array([1, 1.5])
    rate = batch.spikes.counts.numpy() / steps[..., None, None]
    expected = (gain.reshape(2, 1, 1, 1, 1) * rate - 0.2) / 0.4
    np.testing.assert_allclose(clip.voxels, expected, rtol=1e-5, atol=1e-6)
