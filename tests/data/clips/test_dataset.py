"""Clips of a data set: places, draws of an epoch, sizes, cache."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.data.clips.filmed import equal, find, settings, whole_sequence
from tests.data.prepared import random_frames, store_metadata
from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.clips.dataset_manifest import DatasetManifest, SequenceEntry
from vrtspike.data.store.reading import MEMORY_PER_BYTE, CacheStats, cache_stats
from vrtspike.data.store.writing import write_store
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.system.errors import ConfigError, DataError


def test_training_clips_are_aligned_crops_at_every_place(filmed):
    clips = ClipDataset(filmed, "train", settings(CROP_SIZE=88), seed=1)
    assert len(clips) == (6 - 3 + 1) + (4 - 3 + 1)
    sequences = {name: whole_sequence(filmed, name) for name in ("train/a", "train/b")}
    tops, lefts = set(), set()
    for epoch in range(20):
        clips.set_epoch(epoch)
        for index in range(len(clips)):
            sample = clips[index]
            assert sample.spikes.bin_steps.tolist() == [[4, 2, 1, 1, 1, 2, 5, 8]] * 3
            name, start = clips.clips[index]
            full = sequences[name]
            top, left = find(sample.blur, full.blur[start : start + 3])
            sharp = full.sharp[start : start + 3, top : top + 88, left : left + 88]
            assert torch.equal(sample.sharp, sharp)
            counts = full.spikes.counts[start : start + 3, :, top // 2 :, left // 2 :][
                ..., :44, :44
            ]
            assert torch.equal(sample.spikes.counts, counts)
            tops.add(top)
            lefts.add(left)
    # Of 96 x 128 pixels, on whole pixels of spikes; the first and the last are among them.
    assert tops == set(range(0, 9, 2))
    assert lefts == set(range(0, 41, 2))


def test_samples_depend_on_seed_epoch_and_index_only(filmed):
    options = settings(AUGMENT=True)
    first, second = (ClipDataset(filmed, "train", options, seed=3) for _ in range(2))
    for epoch in (0, 5):
        first.set_epoch(epoch)
        second.set_epoch(epoch)
        backwards = [second[i] for i in reversed(range(len(second)))][::-1]
        assert all(equal(first[i], backwards[i]) for i in range(len(first)))
    first.set_epoch(0)
    assert not all(equal(first[i], second[i]) for i in range(len(first)))
    other = ClipDataset(filmed, "train", options, seed=4)
    assert not all(equal(first[i], other[i]) for i in range(len(first)))


def test_validation_clips_cover_every_frame_from_the_middle(filmed):
    clips = ClipDataset(filmed, "test", settings(AUGMENT=True), train=False)
    assert [start for _, start in clips.clips] == [0, 2]
    full = whole_sequence(filmed, "test/c")
    clips.set_epoch(7)
    for length, starts in ((4, [0, 1]), (5, [0]), (1, [0, 1, 2, 3, 4])):
        others = ClipDataset(filmed, "test", settings(CLIP_LEN=length), train=False)
        assert [start for _, start in others.clips] == starts
    # The names of frames count from 1.
    assert clips.sample_name(1) == "test/c from frame 000003"
    assert torch.equal(clips[1].blur, full.blur[2:5, 32:64, 48:80])
    assert torch.equal(clips[1].spikes.counts, full.spikes.counts[2:5, :, 16:32, 24:40])


def test_the_middle_of_a_frame_falls_on_whole_spike_pixels(tmp_path):
    metadata = store_metadata((24,), (34, 50), (17, 25))
    (frame,) = random_frames(metadata)
    write_store(tmp_path / "s.zarr", metadata, [frame])
    entry = SequenceEntry("test", "s", 1, tmp_path / "s.zarr")
    manifest = DatasetManifest(
        tmp_path / "d.json", "d", StoreOptions(bins=4), "blur", "", None, (entry,)
    )
    clips = ClipDataset(manifest, "test", settings(NUM_VOXEL_BINS=4, CLIP_LEN=1), train=False)
    assert len(clips) == 1
    sample = clips[0]
    # 2 and 18 pixels of room: the crop begins after 0 and 4 of 1 and 9 spike pixels.
    np.testing.assert_array_equal(sample.blur[0], frame["blur"][:32, 8:40])
    np.testing.assert_array_equal(sample.spikes.counts[0], frame["voxels"][:, :16, 4:20])


def test_all_sequences_that_are_too_short_or_small_are_named(filmed):
    with pytest.raises(DataError, match=r"5 frames \(DATA.* \(1\)(.|\n)*train/b: 4 frames of"):
        ClipDataset(filmed, "train", settings(CLIP_LEN=5))
    with pytest.raises(DataError, match=r"crops of 104 .* \(2\)(.|\n)*6 frames of 96 x 128"):
        ClipDataset(filmed, "train", settings(CROP_SIZE=104))


def test_settings_of_other_data_are_refused(filmed):
    with pytest.raises(ConfigError, match=r"DATA\.NUM_VOXEL_BINS 8, the settings say 16"):
        ClipDataset(filmed, "train", settings(NUM_VOXEL_BINS=16))
    with pytest.raises(ConfigError, match=r"DATA\.BLUR_DIR blur, the settings say blur_gamma"):
        ClipDataset(filmed, "train", settings(BLUR_DIR="blur_gamma"))


CHUNKS = 3 * (6 + 4)
"""A chunk for each array and frame of the training split."""
FILES = 3 * 2
"""Files of the training split; of each, an index and the array's description are read once."""
LOOKUPS = 6 * 3 * 3
"""Six clips of three frames and three arrays."""
FRAME_BYTES = 2 * 96 * 128 * 3 + 8 * 48 * 64


def uses_of_epochs(dataset, frames, epochs=3):
    """Use of a cache with room for some frames, by epoch."""
    size = int(frames * FRAME_BYTES * MEMORY_PER_BYTE)
    clips = ClipDataset(dataset, "train", settings(), cache_bytes=size)
    assert len(clips) == 6
    uses = []
    for _ in range(epochs):
        before = cache_stats()
        for index in range(len(clips)):
            clips[index]
        uses.append(CacheStats(*np.subtract(cache_stats(), before).tolist()))
    return uses


def test_a_cache_that_holds_the_data_reads_each_chunk_once(filmed):
    first, *others = uses_of_epochs(filmed, frames=12)
    assert first == CacheStats(LOOKUPS, CHUNKS + 2 * FILES)
    assert others == [CacheStats(LOOKUPS, 0)] * 2
    before, after = first.record(), others[0].record()
    assert (before["items"], before["full"]) == (CHUNKS + 2 * FILES, False)
    assert (after["hits"], after["hit_rate"]) == (LOOKUPS, 1)


def test_a_small_cache_drops_the_least_recently_used_chunks(filmed):
    *_, last = uses_of_epochs(filmed, frames=4)
    # Of successive clips two frames are the same. Each sequence is new again: the other one was
    # read in between.
    assert (last.lookups, last.reads) == (LOOKUPS, CHUNKS)
    assert last.record()["hit_rate"] == pytest.approx(1 - CHUNKS / LOOKUPS, abs=1e-4)
    assert last.record()["full"]


def test_crops_have_the_size_of_their_epoch_and_the_last_is_continued(filmed):
    clips = ClipDataset(filmed, "train", settings(), crops=[16, 16, 24], seed=3)
    for epoch, size in enumerate((16, 16, 24, 24)):
        alone = ClipDataset(filmed, "train", settings(CROP_SIZE=size), seed=3)
        clips.set_epoch(epoch)
        alone.set_epoch(epoch)
        assert equal(clips[1], alone[1])
    with pytest.raises(DataError, match=r"crops of 16, 104 .* \(2\)"):
        ClipDataset(filmed, "train", settings(), crops=[104, 16])


def test_a_quarter_of_the_training_clips_is_without_neighbours(filmed):
    clips = ClipDataset(filmed, "train", settings(CLIP_LEN=1, NEIGHBOURS=True))
    isolated = []
    for epoch in range(60):
        clips.set_epoch(epoch)
        # Frame 2 of the first sequence, which has a neighbour on either side.
        sample = clips[2]
        assert clips.clips[2] == ("train/a", 2)
        isolated.append(not sample.spikes.has_neighbors.any())
        assert isolated[-1] or sample.spikes.has_neighbors.all()
    assert 6 <= sum(isolated) <= 24
