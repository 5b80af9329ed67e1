"""Clips as they are read from stores: counts of spikes, exposures, neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.data.clips.filmed import equal, settings, tensors
from tests.data.prepared import random_frames, store_metadata
from vrtspike.config.run_schema import RunSettings
from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.clips.samples import read_clip
from vrtspike.data.store.reading import Store
from vrtspike.data.store.writing import write_store
from vrtspike.training.batches import ShuffledBatches
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.workers import WorkerCounts


def test_counting_stored_spikes_on_the_fly_gives_the_same_samples(filmed):
    stored = ClipDataset(filmed, "train", settings(AUGMENT=True))
    counted = ClipDataset(filmed, "train", settings(AUGMENT=True, USE_PRECOMPUTED_VOXELS=False))
    for epoch in range(3):
        stored.set_epoch(epoch)
        counted.set_epoch(epoch)
        assert all(equal(stored[i], counted[i]) for i in range(len(stored)))


@pytest.mark.parametrize("precomputed", [True, False])
def test_clips_hold_the_spikes_of_their_neighbours(filmed, precomputed):
    options = settings(CLIP_LEN=1, NEIGHBOURS=True, USE_PRECOMPUTED_VOXELS=precomputed)
    clips = ClipDataset(filmed, "test", options, train=False)
    plain = ClipDataset(filmed, "test", settings(CLIP_LEN=5), train=False)[0]
    assert len(clips) == 5
    for frame, clip in enumerate(clips):
        assert clip.blur.shape[0] == 1
        assert clip.spikes.has_neighbors.tolist() == [frame > 0, frame < 4]
        for place, counted in enumerate(range(frame - 1, frame + 2)):
            if 0 <= counted < 5:
                assert torch.equal(clip.spikes.counts[place], plain.spikes.counts[counted])
                assert torch.equal(clip.spikes.bin_steps[place], plain.spikes.bin_steps[counted])
            else:
                assert not clip.spikes.counts[place].any()


@pytest.mark.parametrize("precomputed", [True, False])
def test_exposures_of_different_lengths_in_one_clip(tmp_path, precomputed):
    metadata = store_metadata((56, 88, 56, 104), (32, 48), (16, 24))
    write_store(tmp_path / "s.zarr", metadata, random_frames(metadata))
    store = Store(tmp_path / "s.zarr")
    box = slice(1, 4), slice(8, 24), slice(12, 36)
    sample = read_clip(store, *box, precomputed=precomputed)
    edges = {56: (0, 21, 24, 28, 56), 88: (0, 35, 40, 46, 88), 104: (0, 42, 48, 55, 104)}
    for place, frame in enumerate([*random_frames(metadata)][1:]):
        exposure = np.unpackbits(frame["bits"], axis=2, count=24, bitorder="little")
        ends = edges[len(exposure)]
        assert sample.spikes.bin_steps[place].tolist() == np.diff(ends).tolist()
        for k in range(4):
            expected = exposure[ends[k] : ends[k + 1], 4:12, 6:18].sum(axis=0)
            np.testing.assert_array_equal(sample.spikes.counts[place, k], expected)
    assert sample.spikes.gain.item() == pytest.approx(store.gain, rel=1e-6)
    assert sample.spikes.gain.dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_all_tensors_of_a_batch_are_in_page_locked_memory(filmed):
    clips = ClipDataset(filmed, "train", settings(NEIGHBOURS=True))
    ranks = DistributedContext(0, 0, 1, 1, torch.device("cuda"))
    processes = WorkerCounts(1, 1, train=0, val=0)
    batch, *_ = ShuffledBatches(clips, RunSettings(), processes, ranks).stream(0, 1, 1)
    assert all(tensor.is_pinned() for tensor in tensors(batch))
