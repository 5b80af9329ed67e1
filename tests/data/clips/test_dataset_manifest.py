"""The manifest of a data set: its splits, and the settings that it fits."""

from __future__ import annotations

import pytest

from tests.data.clips.filmed import FRAMES, settings
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.voxels.normalization import VoxelStatistics
from vrtspike.system.errors import ConfigError, DataError


def test_a_split_has_its_sequences_with_their_stores(filmed):
    training, tested = filmed.split("train"), filmed.split("test")
    assert [entry.name for entry in training] == ["a", "b"]
    assert [entry.name for entry in tested] == ["c"]
    for entry in (*training, *tested):
        assert entry.frames == FRAMES[f"{entry.split}/{entry.name}"]
        assert entry.store.is_dir()
    assert load_dataset(filmed.path) == filmed
    with pytest.raises(DataError, match=r"no split 'validation'; there are: test, train"):
        filmed.split("validation")


def test_stores_of_other_bins_or_frames_are_refused(filmed):
    filmed.require_stores(settings())
    filmed.require_blur(settings())
    with pytest.raises(ConfigError, match=r"DATA\.NUM_VOXEL_BINS 8, the settings say 16"):
        filmed.require_stores(settings(NUM_VOXEL_BINS=16))
    with pytest.raises(ConfigError, match=r"DATA\.BLUR_DIR blur, the settings say blur_gamma"):
        filmed.require_blur(settings(BLUR_DIR="blur_gamma"))


def test_given_statistics_take_the_place_of_measured_ones(filmed):
    assert filmed.statistics_for(settings()) == filmed.statistics
    normalization = settings(NORM={"MEAN": 0.25, "STD": 0.5})
    assert filmed.statistics_for(normalization) == VoxelStatistics(0.25, 0.5, 0)
