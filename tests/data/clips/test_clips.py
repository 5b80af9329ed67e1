"""Clips of a data set: places, augmentation, cache, neighbours, batches."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from tests.data.prepared import layout_of, prepared, random_frames
from tests.data.scenes import film
from vrtspike.data.clips.augmentation import halve_pictures
from vrtspike.data.clips.batches import prepare_batch
from vrtspike.data.clips.clips import ClipDataset
from vrtspike.data.clips.dataset import DatasetManifest, SequenceEntry, load_dataset
from vrtspike.data.clips.samples import read_clip
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.data.store.reading import MEMORY_PER_BYTE, CacheUse, Store, cache_share, cache_use
from vrtspike.data.store.voxels import Statistics
from vrtspike.data.store.writing import write_store
from vrtspike.settings import Settings
from vrtspike.settings.stores import StoreOptions
from vrtspike.system.errors import ConfigError, DataError

FRAMES = {"train/a": 6, "train/b": 4, "test/c": 5}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    for seed, (name, count) in enumerate(FRAMES.items()):
        write_sequence(folder / "raw" / name, film(seed, 3 * count + 1), frames_per_exposure=3)
    return load_dataset(prepared(folder / "raw", FRAMES, folder, bins=8))


def settings(**data):
    values = {"NUM_VOXEL_BINS": 8, "CROP_SIZE": 32, "CLIP_LEN": 3, "AUGMENT": False, **data}
    model = {"TYPE": "spike_nafnet", "NAF": {"NEIGHBOUR_BINS": 2}}
    return Settings.model_validate({"DATA": values, "MODEL": model}).DATA


def whole_sequence(dataset, name):
    """A sequence as one clip."""
    split, sequence = name.split("/")
    entry = next(e for e in dataset.split(split) if e.name == sequence)
    frames = slice(0, FRAMES[name])
    return read_clip(Store(entry.store), name, frames, slice(0, 96), slice(0, 128))


def equal(sample, other):
    """Return whether two samples are the same."""
    if sample.keys() != other.keys():
        return False
    for key, value in sample.items():
        if isinstance(value, torch.Tensor):
            if not torch.equal(value, other[key]):
                return False
        elif value != other[key]:
            return False
    return True


def find(crop, frames):
    """Top left corner of a crop in the frames it was cut from."""
    height, width = crop.shape[1:3]
    for top in range(0, frames.shape[1] - height + 1):
        for left in range(0, frames.shape[2] - width + 1):
            if torch.equal(frames[:, top : top + height, left : left + width], crop):
                return top, left
    raise AssertionError("the crop is not part of the frames")


def test_training_clips_are_aligned_crops_at_every_place(dataset):
    clips = ClipDataset(dataset, "train", settings(CROP_SIZE=88), seed=1)
    assert len(clips) == (6 - 3 + 1) + (4 - 3 + 1)
    sequences = {name: whole_sequence(dataset, name) for name in ("train/a", "train/b")}
    tops, lefts = set(), set()
    for epoch in range(20):
        clips.set_epoch(epoch)
        for index in range(len(clips)):
            sample = clips[index]
            assert sample["bin_steps"].tolist() == [[4, 2, 1, 1, 1, 2, 5, 8]] * 3
            full, start = sequences[sample["sequence"]], sample["start"]
            top, left = find(sample["blur"], full["blur"][start : start + 3])
            sharp = full["sharp"][start : start + 3, top : top + 88, left : left + 88]
            assert torch.equal(sample["sharp"], sharp)
            counts = full["counts"][start : start + 3, :, top // 2 :, left // 2 :][..., :44, :44]
            assert torch.equal(sample["counts"], counts)
            tops.add(top)
            lefts.add(left)
    # Of 96 x 128 pixels, on whole pixels of spikes; the first and the last are among them.
    assert tops == set(range(0, 9, 2))
    assert lefts == set(range(0, 41, 2))


def test_samples_depend_on_seed_epoch_and_index_only(dataset):
    options = settings(AUGMENT=True)
    first, second = (ClipDataset(dataset, "train", options, seed=3) for _ in range(2))
    for epoch in (0, 5):
        first.set_epoch(epoch)
        second.set_epoch(epoch)
        backwards = [second[i] for i in reversed(range(len(second)))][::-1]
        assert all(equal(first[i], backwards[i]) for i in range(len(first)))
    first.set_epoch(0)
    assert not all(equal(first[i], second[i]) for i in range(len(first)))
    other = ClipDataset(dataset, "train", options, seed=4)
    assert not all(equal(first[i], other[i]) for i in range(len(first)))


def flip_transpose(values, axis, rows, columns, transpose):
    """Flip and then transpose two axes, by PyTorch."""
    axes = []
    if rows:
        axes.append(axis)
    if columns:
        axes.append(axis + 1)
    flipped = values.flip(axes)
    return flipped.transpose(axis, axis + 1) if transpose else flipped


def test_augmentation_flips_all_arrays_alike(dataset):
    """The eight orientations occur, and in each the spikes still show the frame."""
    clips = ClipDataset(dataset, "train", settings(AUGMENT=True))
    plain = ClipDataset(dataset, "train", settings())
    orientations = set()
    for epoch in range(12):
        clips.set_epoch(epoch)
        plain.set_epoch(epoch)
        for index in range(len(clips)):
            sample, original = clips[index], plain[index]
            (flips,) = (
                flips
                for flips in itertools.product((False, True), repeat=3)
                if torch.equal(flip_transpose(original["blur"], 1, *flips), sample["blur"])
            )
            assert torch.equal(flip_transpose(original["sharp"], 1, *flips), sample["sharp"])
            assert torch.equal(flip_transpose(original["counts"], 2, *flips), sample["counts"])
            assert sample["counts"].is_contiguous()
            orientations.add(flips)
    assert len(orientations) == 8


def test_counting_stored_spikes_on_the_fly_gives_the_same_samples(dataset):
    stored = ClipDataset(dataset, "train", settings(AUGMENT=True))
    counted = ClipDataset(dataset, "train", settings(AUGMENT=True, USE_PRECOMPUTED_VOXELS=False))
    for epoch in range(3):
        stored.set_epoch(epoch)
        counted.set_epoch(epoch)
        assert all(equal(stored[i], counted[i]) for i in range(len(stored)))


def threshold_factor(before, after):
    """Factor of the threshold of the second sensor."""
    times = (after["gain"] / before["gain"]).item()
    total = [sample["counts"].sum(dtype=torch.float64).item() for sample in (before, after)]
    assert total[1] / total[0] == pytest.approx(1 / times, rel=0.03)
    return times


def changed_share(before, after):
    """Share of the counts that have changed."""
    # The gain that would be measured: the brightness before by the rates after.
    rates = [sample["counts"].sum(1, dtype=torch.float32) for sample in (before, after)]
    gain = before["gain"] * (rates[0] * rates[1]).sum() / rates[1].square().sum()
    assert after["gain"].item() == pytest.approx(gain.item(), rel=1e-6)
    assert after["gain"] != before["gain"]
    return (before["counts"] != after["counts"]).float().mean().item()


@pytest.mark.parametrize(
    ("key", "measure", "bounds"),
    [
        ("THRESHOLD_AUGMENT", threshold_factor, (1, 1.3, 2.7, 3)),
        # Up to 2 % of the steps in each of two ways, of bins of one step or two.
        ("FAULT_AUGMENT", changed_share, (0, 0.05, 0.05, 0.15)),
    ],
)
def test_other_sensors_keep_all_other_draws(dataset, key, measure, bounds):
    options = {"AUGMENT": True, "CROP_SIZE": 96, "CLIP_LEN": 4}
    plain, other, some = (
        ClipDataset(dataset, "train", settings(**options, **{key: share})) for share in (0, 1, 0.5)
    )
    values = []
    changed = []
    for epoch in range(5):
        for clips in (plain, other, some):
            clips.set_epoch(epoch)
        for index in range(len(plain)):
            before, after = plain[index], other[index]
            assert equal(other[index], after)
            for name in ("blur", "sharp", "bin_steps"):
                assert torch.equal(before[name], after[name])
            values.append(measure(before, after))
            changed.append(equal(some[index], after))
            assert changed[-1] or equal(some[index], before)
    lower, low, high, upper = bounds
    assert lower < min(values) < low
    assert high < max(values) < upper
    assert 0 < sum(changed) < len(changed)
    test = ClipDataset(dataset, "test", settings(**{key: 1}), train=False)
    assert equal(test[0], ClipDataset(dataset, "test", settings(), train=False)[0])


def test_validation_clips_cover_every_frame_from_the_middle(dataset):
    clips = ClipDataset(dataset, "test", settings(AUGMENT=True), train=False)
    assert [clips[i]["start"] for i in range(len(clips))] == [0, 2]
    full = whole_sequence(dataset, "test/c")
    clips.set_epoch(7)
    for length, starts in ((4, [0, 1]), (5, [0]), (1, [0, 1, 2, 3, 4])):
        others = ClipDataset(dataset, "test", settings(CLIP_LEN=length), train=False)
        assert [others[i]["start"] for i in range(len(others))] == starts
    assert torch.equal(clips[1]["blur"], full["blur"][2:5, 32:64, 48:80])
    assert torch.equal(clips[1]["counts"], full["counts"][2:5, :, 16:32, 24:40])


def test_the_middle_of_a_frame_falls_on_whole_spike_pixels(tmp_path):
    layout = layout_of((24,), (34, 50), (17, 25))
    (frame,) = random_frames(layout)
    write_store(tmp_path / "s.zarr", layout, [frame])
    entry = SequenceEntry("test", "s", 1, tmp_path / "s.zarr")
    manifest = DatasetManifest(
        tmp_path / "d.json", "d", StoreOptions(bins=4), "blur", "", None, (entry,)
    )
    clips = ClipDataset(manifest, "test", settings(NUM_VOXEL_BINS=4, CLIP_LEN=1), train=False)
    assert len(clips) == 1
    sample = clips[0]
    # 2 and 18 pixels of room: the crop begins after 0 and 4 of 1 and 9 spike pixels.
    np.testing.assert_array_equal(sample["blur"][0], frame["blur"][:32, 8:40])
    np.testing.assert_array_equal(sample["counts"][0], frame["voxels"][:, :16, 4:20])


def test_all_sequences_that_are_too_short_or_small_are_named(dataset):
    with pytest.raises(DataError, match=r"5 frames \(DATA.* \(1\)(.|\n)*train/b: 4 frames of"):
        ClipDataset(dataset, "train", settings(CLIP_LEN=5))
    with pytest.raises(DataError, match=r"crops of 104 .* \(2\)(.|\n)*6 frames of 96 x 128"):
        ClipDataset(dataset, "train", settings(CROP_SIZE=104))
    with pytest.raises(ConfigError, match=r"DATA\.NUM_VOXEL_BINS 8, the settings say 16"):
        ClipDataset(dataset, "train", settings(NUM_VOXEL_BINS=16))
    with pytest.raises(ConfigError, match=r"DATA\.BLUR_DIR blur, the settings say blur_gamma"):
        ClipDataset(dataset, "train", settings(BLUR_DIR="blur_gamma"))


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
        before = cache_use()
        for index in range(len(clips)):
            clips[index]
        uses.append(CacheUse(*np.subtract(cache_use(), before).tolist()))
    return uses


def test_a_cache_that_holds_the_data_reads_each_chunk_once(dataset):
    first, *others = uses_of_epochs(dataset, frames=12)
    assert first == CacheUse(LOOKUPS, CHUNKS + 2 * FILES)
    assert others == [CacheUse(LOOKUPS, 0)] * 2
    before, after = first.figures(), others[0].figures()
    assert (before["items"], before["full"]) == (CHUNKS + 2 * FILES, False)
    assert (after["hits"], after["hit_rate"]) == (LOOKUPS, 1)


def test_a_small_cache_drops_the_least_recently_used_chunks(dataset):
    *_, last = uses_of_epochs(dataset, frames=4)
    # Of successive clips two frames are the same. Each sequence is new again: the other one was
    # read in between.
    assert (last.lookups, last.reads) == (LOOKUPS, CHUNKS)
    assert last.figures()["hit_rate"] == pytest.approx(1 - CHUNKS / LOOKUPS, abs=1e-4)
    assert last.figures()["full"]


def test_crops_have_the_size_of_their_epoch_and_the_last_is_continued(dataset):
    clips = ClipDataset(dataset, "train", settings(), crops=[16, 16, 24], seed=3)
    for epoch, size in enumerate((16, 16, 24, 24)):
        alone = ClipDataset(dataset, "train", settings(CROP_SIZE=size), seed=3)
        clips.set_epoch(epoch)
        alone.set_epoch(epoch)
        assert equal(clips[1], alone[1])
    with pytest.raises(DataError, match=r"crops of 16, 104 .* \(2\)"):
        ClipDataset(dataset, "train", settings(), crops=[104, 16])


def test_cache_budget_is_one_for_the_machine():
    assert cache_share(settings(), 8) == 500_000_000  # on by default
    assert cache_share(settings(CACHE_SIZE_GB=2.0), 0) == 2_000_000_000
    assert cache_share(settings(USE_RAM_CACHE=False), 8) == 0


def test_batches_agree_with_the_definition_in_float64(dataset):
    clips = ClipDataset(dataset, "train", settings())
    batch = next(iter(DataLoader(clips, batch_size=2)))
    statistics = Statistics(0.2, 0.4, 1)
    clip = prepare_batch(batch, statistics, "cpu")
    assert clip.blur.shape == clip.sharp.shape == (2, 3, 3, 32, 32)
    assert clip.voxels.shape == (2, 3, 8, 16, 16)
    for tensor in (clip.blur, clip.sharp, clip.voxels):
        assert tensor.dtype == torch.float32
        assert tensor.is_contiguous()
    blur = batch["blur"].numpy().transpose(0, 1, 4, 2, 3) / 255
    np.testing.assert_allclose(clip.blur, blur, rtol=1e-6)
    # The second clip as another sensor sees it, with an exposure of other bins.
    batch["gain"][1] *= 1.5
    batch["bin_steps"][1, 2] += 3
    clip = prepare_batch(batch, statistics, "cpu")
    steps = np.tile([4, 2, 1, 1, 1, 2, 5, 8], (2, 3, 1))
    steps[1, 2] += 3
    gain = Store(dataset.split("train")[0].store).gain * np.array([1, 1.5])
    rate = batch["counts"].numpy() / steps[..., None, None]
    expected = (gain.reshape(2, 1, 1, 1, 1) * rate - 0.2) / 0.4
    np.testing.assert_allclose(clip.voxels, expected, rtol=1e-5, atol=1e-6)
    del batch["sharp"]
    assert prepare_batch(batch, statistics, "cpu").sharp is None


@pytest.mark.parametrize("precomputed", [True, False])
def test_clips_hold_the_spikes_of_their_neighbours(dataset, precomputed):
    options = settings(CLIP_LEN=1, NEIGHBOURS=True, USE_PRECOMPUTED_VOXELS=precomputed)
    clips = ClipDataset(dataset, "test", options, train=False)
    plain = ClipDataset(dataset, "test", settings(CLIP_LEN=5), train=False)[0]
    assert len(clips) == 5
    for frame, clip in enumerate(clips):
        assert clip["blur"].shape[0] == 1
        assert clip["neighbours"].tolist() == [frame > 0, frame < 4]
        for place, counted in enumerate(range(frame - 1, frame + 2)):
            if 0 <= counted < 5:
                assert torch.equal(clip["counts"][place], plain["counts"][counted])
                assert torch.equal(clip["bin_steps"][place], plain["bin_steps"][counted])
            else:
                assert not clip["counts"][place].any()


def test_absent_neighbours_deviate_in_no_bin(dataset):
    clips = ClipDataset(dataset, "test", settings(CLIP_LEN=1, NEIGHBOURS=True), train=False)
    statistics = Statistics(0.2, 0.4, 1)
    voxels = prepare_batch(clips.collate([clips[0], clips[2], clips[4]]), statistics, "cpu").voxels
    assert torch.isfinite(voxels).all()
    alone = ClipDataset(dataset, "test", settings(CLIP_LEN=5), train=False)
    single = prepare_batch(alone.collate([alone[0]]), statistics, "cpu").voxels[0]
    mean = single.mean(dim=1, keepdim=True).expand_as(single)
    expected = torch.stack(
        [
            torch.stack([mean[0], single[0], single[1]]),
            torch.stack([single[1], single[2], single[3]]),
            torch.stack([single[3], single[4], mean[4]]),
        ]
    )
    torch.testing.assert_close(voxels, expected)


def test_a_quarter_of_the_training_clips_is_without_neighbours(dataset):
    clips = ClipDataset(dataset, "train", settings(CLIP_LEN=1, NEIGHBOURS=True))
    isolated = []
    for epoch in range(60):
        clips.set_epoch(epoch)
        # Frame 2 of the first sequence, which has a neighbour on either side.
        sample = clips[2]
        assert sample["start"] == 2
        isolated.append(not sample["neighbours"].any())
        assert isolated[-1] or sample["neighbours"].all()
    assert 6 <= sum(isolated) <= 24


def test_a_batch_changes_to_a_camera_or_a_sensor_of_half_the_size(dataset):
    options = {"CLIP_LEN": 1, "NEIGHBOURS": True}
    clips = ClipDataset(dataset, "train", settings(**options, RATIO_AUGMENT=0.8))
    plain = ClipDataset(dataset, "train", settings(**options))
    kinds = Counter()
    for epoch in range(30):
        clips.set_epoch(epoch)
        plain.set_epoch(epoch)
        # The first sample decides.
        batch = clips.collate([clips[index] for index in (1, 4)])
        before = plain.collate([plain[index] for index in (1, 4)])
        kind = (batch["blur"].shape[2], batch["counts"].shape[-1])
        kinds[kind] += 1
        assert "ratio_change" not in batch
        if kind[0] == 32:
            assert torch.equal(batch["blur"], before["blur"])
        else:
            halved = halve_pictures(before["sharp"].flatten(0, 1))
            assert torch.equal(batch["sharp"].flatten(0, 1), halved)
        if kind[1] == 16:
            assert torch.equal(batch["counts"], before["counts"])
        else:
            spikes = before["counts"].sum(dtype=torch.int64) / 4
            assert batch["counts"].sum(dtype=torch.int64).item() == pytest.approx(
                spikes.item(), rel=0.02
            )
            assert torch.equal(batch["gain"], before["gain"])
    assert kinds.keys() == {(32, 16), (16, 16), (32, 8)}
    assert kinds[32, 16] < 15


def test_halves_of_odd_sensor_crops_are_refused(tmp_path):
    layout = layout_of((56, 56), (96, 96), (12, 12))
    write_store(tmp_path / "s.zarr", layout, random_frames(layout))
    entry = SequenceEntry("train", "s", 2, tmp_path / "s.zarr")
    dataset = DatasetManifest(tmp_path, "d", StoreOptions(bins=4), "blur", "", None, (entry,))
    options = settings(CLIP_LEN=1, CROP_SIZE=40, RATIO_AUGMENT=0.1, NUM_VOXEL_BINS=4)
    with pytest.raises(ConfigError, match=r"crops of 40 pixels .* are 5 pixels of the sensor"):
        ClipDataset(dataset, "train", options)


@pytest.mark.parametrize("precomputed", [True, False])
def test_exposures_of_different_lengths_in_one_clip(tmp_path, precomputed):
    layout = layout_of((56, 88, 56, 104), (32, 48), (16, 24))
    write_store(tmp_path / "s.zarr", layout, random_frames(layout))
    store = Store(tmp_path / "s.zarr")
    box = slice(1, 4), slice(8, 24), slice(12, 36)
    sample = read_clip(store, "train/s", *box, precomputed=precomputed)
    edges = {56: (0, 21, 24, 28, 56), 88: (0, 35, 40, 46, 88), 104: (0, 42, 48, 55, 104)}
    for place, frame in enumerate([*random_frames(layout)][1:]):
        exposure = np.unpackbits(frame["bits"], axis=2, count=24, bitorder="little")
        ends = edges[len(exposure)]
        assert sample["bin_steps"][place].tolist() == np.diff(ends).tolist()
        for k in range(4):
            expected = exposure[ends[k] : ends[k + 1], 4:12, 6:18].sum(axis=0)
            np.testing.assert_array_equal(sample["counts"][place, k], expected)
    assert sample["gain"].item() == pytest.approx(store.gain, rel=1e-6)
    assert sample["gain"].dtype == torch.float32
