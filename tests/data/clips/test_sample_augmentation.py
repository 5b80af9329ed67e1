"""Augmentation of samples: orientation, thresholds, faults, other cameras."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch

from tests.data.clips.filmed import equal, settings
from tests.data.prepared import layout_of, random_frames
from vrtspike.data.clips.array_augmentation import halve_pictures
from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.clips.dataset_manifest import DatasetManifest, SequenceEntry
from vrtspike.data.store.writing import write_store
from vrtspike.settings.stores import StoreOptions
from vrtspike.system.errors import ConfigError


def flip_transpose(values, axis, rows, columns, transpose):
    """Flip and then transpose two axes, by PyTorch."""
    axes = []
    if rows:
        axes.append(axis)
    if columns:
        axes.append(axis + 1)
    flipped = values.flip(axes)
    return flipped.transpose(axis, axis + 1) if transpose else flipped


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
                if torch.equal(flip_transpose(original["blur"], 1, *flips), sample["blur"])
            )
            assert torch.equal(flip_transpose(original["sharp"], 1, *flips), sample["sharp"])
            assert torch.equal(flip_transpose(original["counts"], 2, *flips), sample["counts"])
            assert sample["counts"].is_contiguous()
            orientations.add(flips)
    assert len(orientations) == 8


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
            for name in ("blur", "sharp", "bin_steps"):
                assert torch.equal(before[name], after[name])
            values.append(measure(before, after))
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
