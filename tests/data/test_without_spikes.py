"""A data set of blurry and sharp frames only, from the checks to what a model is given."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from tests.data import prepared
from tests.data.conftest import SEQUENCES
from tests.data.prepared import built, check
from vrtspike.data.clips.batches import prepare_batch
from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.store.reading import Store
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import read_json, write_json
from vrtspike.io.images import read_rgb, write_png
from vrtspike.system.errors import DataError

BINS = 8


@pytest.fixture(scope="module")
def stores(raw_data_without_spikes, tmp_path_factory):
    return built(raw_data_without_spikes, SEQUENCES, tmp_path_factory.mktemp("stores"), BINS)


@pytest.fixture(scope="module")
def merged(stores):
    path = stores[0].parents[1] / "dataset.json"
    write_json(path, prepared.merged(path.parent, SEQUENCES))
    return path


def test_the_manifest_has_no_exposures(raw_data_without_spikes):
    manifest = check(raw_data_without_spikes, SEQUENCES[0])
    assert (manifest["faults"], manifest["spikes"]) == ([], False)
    assert (manifest["rgb_size"], manifest["spike_size"]) == ([96, 128], None)
    assert [frame["spikes"] for frame in manifest["frames"]] == [None] * 3
    assert len(manifest["files"]) == 6


def test_the_store_holds_frames_only(raw_data_without_spikes, stores):
    store = Store(stores[0].with_suffix(".zarr"))
    folders = [path for path in stores[0].with_suffix(".zarr").iterdir() if path.is_dir()]
    assert sorted(folder.name for folder in folders) == ["blur", "sharp"]
    for name in ("blur", "sharp"):
        result = store.read(name, slice(1, 2), slice(None), slice(None))[0]
        expected = read_rgb(raw_data_without_spikes / SEQUENCES[0] / name / "000002.png")
        np.testing.assert_array_equal(result, expected)
    manifest = read_json(stores[0])
    assert (manifest["spike_size"], manifest["histogram"]) == (None, {})


def test_the_data_set_has_no_statistics_and_its_digest_covers_the_frames(
    raw_data_without_spikes, merged, pristine_raw_data, tmp_path
):
    contents = read_json(merged)
    assert contents["statistics"] is None
    norm = DeblurringSettings.model_validate({"DATA": {"NORM": {"MEAN": 0.1, "STD": 0.2}}}).DATA
    assert load_dataset(merged).statistics_for(norm) is None
    copy = shutil.copytree(raw_data_without_spikes, tmp_path / "copy")
    sharp = copy / SEQUENCES[0] / "sharp/000001.png"
    picture = read_rgb(sharp)
    picture[0, 0] ^= 1
    write_png(sharp, picture)
    path = prepared.prepared(copy, SEQUENCES, tmp_path, BINS)
    assert read_json(path)["digest"] != contents["digest"]
    built(pristine_raw_data, SEQUENCES[:1], tmp_path, BINS)
    options = r"DATA\.NUM_VOXEL_BINS 8, DATA\.CONTEXT_STEPS 0"
    kinds = f"0003_11_00: .* no spikes; .*0001_11_00: {options}, blur, spikes"
    with pytest.raises(DataError, match=f"of different kinds.*{kinds}"):
        prepared.merged(path.parent, SEQUENCES)


@pytest.mark.parametrize("train", [True, False])
def test_clips_have_frames_and_no_voxels(merged, train):
    settings = DeblurringSettings.model_validate(
        {"DATA": {"NUM_VOXEL_BINS": BINS, "CROP_SIZE": 24, "CLIP_LEN": 2}}
    ).DATA
    clips = ClipDataset(load_dataset(merged), "train", settings, train=train)
    assert clips[0].spikes is None
    batch = clips.read_batch([0, 1])
    clip = prepare_batch(batch, load_dataset(merged).statistics_for(settings), "cpu")
    assert clip.voxels is None
    assert clip.blur.shape == clip.sharp.shape == (2, 2, 3, 24, 24)
    torch.testing.assert_close(clip.blur, batch.blur.movedim(-1, -3) / 255)
