"""Augmentation of samples and arrays: orientation, thresholds, faults, other cameras."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.clips.filmed import equal, settings
from tests.data.prepared import random_frames, store_metadata
from vrtspike.data.clips.augmentation import (
    Flips,
    add_faults,
    decimate_counts,
    flip_planes,
    halve_pictures,
    halve_sensor,
)
from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.clips.dataset_manifest import DatasetManifest, SequenceEntry
from vrtspike.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.data.raw.spikes import size_ratio
from vrtspike.data.store.writing import write_store
from vrtspike.data.voxels.counting import voxelize
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.system.errors import ConfigError


def fire(light, theta, charge):
    """An integrate-and-fire sensor in whole numbers: light (T, h, w), charge at the start."""
    charge = charge.copy()
    spikes = []
    for step in light:
        charge += step
        spikes.append(charge >= theta)
        charge -= theta * spikes[-1]
    return np.stack(spikes).astype(np.uint8)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_decimated_counts_are_those_of_a_sensor_of_a_higher_threshold(times):
    random = np.random.default_rng(times)
    lengths, theta = (56, 88, 16), 100
    light = random.integers(0, 90, (sum(lengths), 6, 7))
    charge = random.integers(0, theta, (6, 7))
    waiting = random.integers(0, times, (6, 7))
    parts = np.cumsum(lengths)[:-1]

    def counts(spikes):
        return np.stack(
            [
                voxelize(exposure, 8, spk_gopro_exposure(len(exposure)).sharp)
                for exposure in np.split(spikes, parts)
            ]
        )

    original = torch.from_numpy(counts(fire(light, theta, charge)))
    higher = counts(fire(light, times * theta, charge + theta * waiting))
    result = decimate_counts(original, times, waiting)
    assert result.dtype == torch.uint8
    np.testing.assert_array_equal(result, higher)
    assert result.sum() > 500


def test_each_pixel_has_its_own_threshold_not_always_whole():
    counts = torch.ones((2, 5, 1, 2), dtype=torch.uint8)
    result = decimate_counts(counts, np.array([[1.0, 2.5]]), np.array([[0.0, 0.5]]))
    assert result[..., 0].flatten().tolist() == [1] * 10
    # Light of 0.5 + 1, 2, ...: full at 2 (2.5), 5 (5.5 - 2.5 = 3) and so on.
    assert result[..., 1].flatten().tolist() == [0, 1, 0, 0, 1, 0, 1, 0, 0, 1]


def test_decimation_counts_further_than_a_byte():
    counts = torch.full((3, 2, 1, 1), 255, dtype=torch.uint8)
    result = decimate_counts(counts, 2, np.ones((1, 1), np.int64))
    assert result.flatten().tolist() == [128, 127, 128, 127, 128, 127]


def test_faults_have_the_given_rates_and_stay_within_the_steps():
    random = np.random.default_rng(0)
    steps = torch.tensor([[2, 3], [4, 1]], dtype=torch.uint8)
    none = torch.zeros((2, 2, 200, 200), dtype=torch.uint8)
    every = steps[..., None, None].expand_as(none).contiguous()

    def rate(counts, **faults):
        faulty = add_faults(counts, steps, random, **faults)
        assert faulty.dtype == torch.uint8
        assert (faulty <= every).all()
        return faulty.sum(dtype=torch.float32).item() / every.sum(dtype=torch.float32).item()

    for counts in (none, every):
        assert torch.equal(add_faults(counts, steps, random), counts)
    assert rate(none, dark=0.02) == pytest.approx(0.02, rel=0.06)
    assert rate(every, dark=0.02) == 1
    assert rate(none, flipped=0.02) == pytest.approx(0.02, rel=0.06)
    assert rate(every, flipped=0.02) == pytest.approx(0.98, abs=0.002)
    assert rate(none, hot=0.05) == pytest.approx(0.05, rel=0.1)
    assert rate(every, dead=0.05) == pytest.approx(0.95, abs=0.005)
    clip = none.clone()
    add_faults(clip, steps, random, dark=0.5)
    assert not clip.any(), "the counts that were read may be cached"


def test_late_spikes_go_to_the_next_bin_of_their_exposure():
    steps = torch.full((2, 3), 4, dtype=torch.uint8)
    counts = torch.zeros((2, 3, 100, 100), dtype=torch.uint8)
    counts[0, 0], counts[0, 2] = 4, 4
    faulty = add_faults(counts, steps, np.random.default_rng(1), late=0.1)
    assert torch.equal(faulty.sum((1, 2, 3)), counts.sum((1, 2, 3)))
    assert torch.equal(faulty[1], counts[1])
    assert torch.equal(faulty[0, 2], counts[0, 2]), "the last spike of an exposure stays in it"
    moved = faulty[0, 1].float().mean().item()
    # Each of the full bin's pixels has a spike in its last step; a second one seldom follows.
    assert moved == pytest.approx(0.1, rel=0.1)


def test_hot_and_dead_pixels_are_the_same_in_all_frames():
    steps = torch.full((3, 4), 5, dtype=torch.uint8)
    counts = torch.full((3, 4, 60, 60), 2, dtype=torch.uint8)
    faulty = add_faults(counts, steps, np.random.default_rng(1), hot=0.1, dead=0.1)
    assert set(faulty.unique().tolist()) == {0, 2, 5}
    assert (faulty == faulty[:1, :1]).all()


def test_a_camera_of_half_the_size_sees_means_of_four_pixels():
    pictures = torch.randint(256, (2, 6, 8, 3), dtype=torch.uint8)
    means = pictures.double().reshape(2, 3, 2, 4, 2, 3).mean(dim=(2, 4))
    halves = halve_pictures(pictures)
    assert halves.dtype == torch.uint8
    assert (halves.double() - means).abs().max() <= 0.5


def test_a_sensor_of_half_the_size_fires_with_the_light_of_four_pixels():
    counts = torch.randint(9, (3, 4, 6, 8), dtype=torch.uint8)
    halves = halve_sensor(counts, np.random.default_rng(0))
    assert (halves.dtype, halves.shape) == (torch.uint8, (3, 4, 3, 4))
    light = counts.double().reshape(3, 4, 3, 2, 4, 2).sum(dim=(3, 5)).reshape(12, 3, 4)
    # A spike for every four: up to any bin less than one spike is waiting.
    waiting = light.cumsum(0) / 4 - halves.double().reshape(12, 3, 4).cumsum(0)
    assert waiting.min() > -1
    assert waiting.max() < 1
    assert not torch.equal(halves, halve_sensor(counts, np.random.default_rng(1)))


def flip_transpose(values, axis, rows, columns, transpose):
    """Flip and then transpose two axes, by PyTorch."""
    axes = []
    if rows:
        axes.append(axis)
    if columns:
        axes.append(axis + 1)
    flipped = values.flip(axes)
    return flipped.transpose(axis, axis + 1) if transpose else flipped


@pytest.mark.parametrize("flips", [*itertools.product((False, True), repeat=3)][1:])
def test_rows_and_columns_are_flipped_and_then_transposed(flips):
    pictures = torch.randint(256, (2, 3, 4, 3), dtype=torch.uint8)
    for planes in (pictures, pictures[..., 0].contiguous()):
        flipped = flip_planes(planes, Flips(*flips))
        assert torch.equal(flipped, flip_transpose(planes, 1, *flips))


def test_augmentation_flips_all_arrays_alike(filmed):
    """The eight orientations occur, and in each the spikes still show the frame."""
    clips = ClipDataset(filmed, "train", settings(AUGMENT=True))
    plain = ClipDataset(filmed, "train", settings())
    orientations = set()
    for epoch in range(12):
        clips.set_epoch(epoch)
        plain.set_epoch(epoch)
        for index in range(len(clips)):
            sample, original = clips[index], plain[index]
            (flips,) = (
                flips
                for flips in itertools.product((False, True), repeat=3)
                if torch.equal(flip_transpose(original.blur, 1, *flips), sample.blur)
            )
            assert torch.equal(flip_transpose(original.sharp, 1, *flips), sample.sharp)
            counts = sample.spikes.counts
            assert torch.equal(flip_transpose(original.spikes.counts, 2, *flips), counts)
            assert counts.is_contiguous()
            orientations.add(flips)
    assert len(orientations) == 8


def threshold_factor(before, after):
    """Factor of the threshold of the second sensor."""
    times = (after.gain / before.gain).item()
    total = [spikes.counts.sum(dtype=torch.float64).item() for spikes in (before, after)]
    assert total[1] / total[0] == pytest.approx(1 / times, rel=0.03)
    return times


def changed_share(before, after):
    """Share of the counts that have changed."""
    # The gain that would be measured: the brightness before by the rates after.
    rates = [spikes.counts.sum(1, dtype=torch.float32) for spikes in (before, after)]
    gain = before.gain * (rates[0] * rates[1]).sum() / rates[1].square().sum()
    assert after.gain.item() == pytest.approx(gain.item(), rel=1e-6)
    assert after.gain != before.gain
    return (before.counts != after.counts).float().mean().item()


@pytest.mark.parametrize(
    ("key", "measure", "bounds"),
    [
        ("THRESHOLD_AUGMENT", threshold_factor, (1, 1.3, 2.7, 3)),
        # Up to 2 % of the steps in each of two ways, of bins of one step or two.
        ("FAULT_AUGMENT", changed_share, (0, 0.05, 0.05, 0.15)),
    ],
)
def test_other_sensors_keep_all_other_draws(filmed, key, measure, bounds):
    options = {"AUGMENT": True, "CROP_SIZE": 96, "CLIP_LEN": 4}
    plain, other, some = (
        ClipDataset(filmed, "train", settings(**options, **{key: share})) for share in (0, 1, 0.5)
    )
    values = []
    changed = []
    for epoch in range(5):
        for clips in (plain, other, some):
            clips.set_epoch(epoch)
        for index in range(len(plain)):
            before, after = plain[index], other[index]
            assert equal(other[index], after)
            assert torch.equal(before.blur, after.blur)
            assert torch.equal(before.sharp, after.sharp)
            assert torch.equal(before.spikes.bin_steps, after.spikes.bin_steps)
            values.append(measure(before.spikes, after.spikes))
            changed.append(equal(some[index], after))
            assert changed[-1] or equal(some[index], before)
    lower, low, high, upper = bounds
    assert lower < min(values) < low
    assert high < max(values) < upper
    assert 0 < sum(changed) < len(changed)
    test = ClipDataset(filmed, "test", settings(**{key: 1}), train=False)
    assert equal(test[0], ClipDataset(filmed, "test", settings(), train=False)[0])


def test_a_batch_changes_to_a_camera_or_a_sensor_of_half_the_size(filmed):
    options = {"CLIP_LEN": 1, "NEIGHBOURS": True}
    clips = ClipDataset(filmed, "train", settings(**options, RATIO_AUGMENT=0.8))
    plain = ClipDataset(filmed, "train", settings(**options))
    kinds = Counter()
    for epoch in range(30):
        clips.set_epoch(epoch)
        plain.set_epoch(epoch)
        batch = clips.read_batch([1, 4])
        before = plain.read_batch([1, 4])
        kind = (batch.blur.shape[2], batch.spikes.counts.shape[-1])
        kinds[kind] += 1
        # The first sample decides.
        alone = clips.read_batch([1])
        assert (alone.blur.shape[2], alone.spikes.counts.shape[-1]) == kind
        if kind[0] == 32:
            assert torch.equal(batch.blur, before.blur)
        else:
            halved = halve_pictures(before.sharp.flatten(0, 1))
            assert torch.equal(batch.sharp.flatten(0, 1), halved)
        if kind[1] == 16:
            assert torch.equal(batch.spikes.counts, before.spikes.counts)
        else:
            count = before.spikes.counts.sum(dtype=torch.int64) / 4
            assert batch.spikes.counts.sum(dtype=torch.int64).item() == pytest.approx(
                count.item(), rel=0.02
            )
            assert torch.equal(batch.spikes.gain, before.spikes.gain)
    assert kinds.keys() == {(32, 16), (16, 16), (32, 8)}
    assert kinds[32, 16] < 15


def random_dataset(folder: Path, sensor: int) -> DatasetManifest:
    """A training sequence of random frames of 96 x 96 pixels and a sensor of so many rows."""
    metadata = store_metadata((56, 56), (96, 96), (sensor, sensor))
    write_store(folder / "s.zarr", metadata, random_frames(metadata))
    entry = SequenceEntry("train", "s", 2, folder / "s.zarr")
    return DatasetManifest(folder, "d", StoreOptions(bins=4), "blur", "", None, (entry,))


@pytest.mark.parametrize(("sensor", "ratios"), [(96, {1, 2}), (64, {1.5, 3}), (48, {1, 2, 4})])
def test_frames_of_a_batch_never_become_smaller_than_the_sensor(tmp_path, sensor, ratios):
    options = settings(CLIP_LEN=1, CROP_SIZE=48, RATIO_AUGMENT=0.5, NUM_VOXEL_BINS=4)
    clips = ClipDataset(random_dataset(tmp_path, sensor), "train", options)
    drawn = Counter()
    for epoch in range(100):
        clips.set_epoch(epoch)
        batch = clips.read_batch([0])
        drawn[size_ratio(batch.blur.shape[2:4], batch.spikes.counts.shape[-2:])] += 1
    assert drawn.keys() == ratios
    assert 35 <= drawn[Fraction(96, sensor)] <= 65


def test_halves_of_odd_sensor_crops_are_refused(tmp_path):
    options = settings(CLIP_LEN=1, CROP_SIZE=40, RATIO_AUGMENT=0.1, NUM_VOXEL_BINS=4)
    with pytest.raises(ConfigError, match=r"crops of 40 pixels .* are 5 pixels of the sensor"):
        ClipDataset(random_dataset(tmp_path, 12), "train", options)
