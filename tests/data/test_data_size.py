"""Size of a data set estimated from file names and one frame."""

from __future__ import annotations

import math
import shutil

import pytest

from tests.data.scenes import film
from vrtspike.data.data_size import GOPRO, DataSize, measure_data
from vrtspike.data.datasets import Dataset
from vrtspike.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.data.store.layout import StoreLayout
from vrtspike.system.errors import DataError


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "walk"
    write_sequence(root / "train/a", film(1, 34, 64, 96), frames_per_exposure=11)
    write_sequence(root / "train/b", film(2, 23, 64, 96), frames_per_exposure=11)
    write_sequence(root / "test/c", film(3, 12, 64, 96), frames_per_exposure=11)
    return root


def dataset(root):
    return Dataset("walk", str(root), "blur", "train", "test", None, "auto", "stop", "raw")


def test_names_and_one_frame_tell_all(root):
    size = measure_data(dataset(root))
    assert size == DataSize(
        {"train": 2, "test": 1}, {"train": 5, "test": 1}, (64, 96), (32, 48), 88, {}
    )


def test_without_spikes_and_with_faults(root, tmp_path):
    copy = tmp_path / "walk"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("spike"))
    shutil.rmtree(copy / "train/b/sharp")
    size = measure_data(dataset(copy))
    assert (size.spike_size, size.sequences["train"]) == (None, 1)
    assert list(size.faults) == ["train/b"]
    with pytest.raises(DataError, match="does not exist"):
        measure_data(dataset(tmp_path / "nosuch"))


def test_bytes_of_stores():
    # Documented: 9.2 MB for a frame of 720 x 1280 with 88 steps and 32 bins.
    assert GOPRO.store_bytes(32) / (2103 + 1111) == pytest.approx(9.2e6, rel=0.02)
    plain = DataSize({"train": 1}, {"train": 10}, (720, 1280), None, 0, {})
    assert plain.store_bytes(32) == 10 * 2 * 720 * 1280 * 3
    # As many as the arrays have, but for the voxels.
    layout = StoreLayout(
        ("0",) * 4, (88,) * 4, (64, 96), (32, 48), 8, (spk_gopro_exposure(88),) * 4
    )
    small = DataSize({"train": 1}, {"train": 4}, (64, 96), (32, 48), 88, {})
    voxels, nbytes = 4 * 8 * 32 * 48, sum(map(math.prod, layout.shapes.values()))
    assert small.store_bytes(8) == pytest.approx(nbytes - voxels + voxels / 7, abs=1)
