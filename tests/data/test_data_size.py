"""Size of a data set estimated from file names and one frame."""

from __future__ import annotations

import math
import shutil

import pytest
import zarr

from tests.data.prepared import built
from tests.data.raw.published import PUBLISHED
from tests.data.scenes import film
from vrtspike.data.data_size import GOPRO, DataSize, measure_data
from vrtspike.data.data_source import DataSource
from vrtspike.data.exposure import EXPOSURE_TABLE, Exposure, exposure_table
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.system.errors import DataError


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "walk"
    write_sequence(root / "train/a", film(1, 34, 64, 96), frames_per_exposure=11)
    write_sequence(root / "train/b", film(2, 23, 64, 96), frames_per_exposure=11)
    write_sequence(root / "test/c", film(3, 12, 64, 96), frames_per_exposure=11)
    return root


def dataset(root):
    return DataSource(
        name="walk",
        root=str(root),
        train_split="train",
        test_split="test",
        spike_size=None,
        on_error="stop",
        kind="raw",
    )


def test_names_and_one_frame_tell_all(root):
    size = measure_data(dataset(root))
    assert size == DataSize(
        {"train": 2, "test": 1}, {"train": 5, "test": 1}, (64, 96), (32, 48), 88, 88, {}
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


def test_stores_take_the_documented_bytes():
    # Documented: 9.2 MB for a frame of 720 x 1280 with 88 steps and 32 bins.
    assert GOPRO.store_bytes(StoreOptions(bins=32)) / (2103 + 1111) == pytest.approx(
        9.2e6, rel=0.02
    )
    plain = DataSize({"train": 1}, {"train": 10}, (720, 1280), None, 0, 0, {})
    for context in (0, 8):
        options = StoreOptions(bins=32, context=context)
        assert plain.store_bytes(options) == 10 * 2 * 720 * 1280 * 3


@pytest.mark.parametrize(
    ("name", "sequence", "context", "steps"),
    [
        ("one stream", "a", 0, 56),
        ("one stream", "a", 5, 66),
        ("s-sdm", "a", 5, 107),
        # Of a file of 137 steps.
        ("s-sdm", "a", 50, 137),
        # Files of the open shutter alone.
        ("spk_gopro", "a", 5, 56),
    ],
)
def test_stores_have_the_predicted_bytes(tmp_path, name, sequence, context, steps):
    """But for the compression of voxels, which is assumed."""
    root = tmp_path / "raw"
    PUBLISHED[name].write(root)
    names = [f"{split}/{sequence}" for split in ("train", "test")]
    frame_bytes = 0.0
    for manifest in built(root, names, tmp_path, bins=8, context=context):
        arrays = dict(zarr.open_group(manifest.with_suffix(".zarr"), mode="r").arrays())
        assert arrays["bits"].shape[1] == steps
        for array_name, array in arrays.items():
            compression = 7 if array_name == "voxels" else 1
            frame_bytes += math.prod(array.shape) * array.dtype.itemsize / compression
    size = measure_data(dataset(root))
    options = StoreOptions(bins=8, context=context)
    assert size.store_bytes(options) == pytest.approx(frame_bytes, abs=1)


def test_the_longest_exposure_of_a_sequence_counts(root, tmp_path):
    copy = shutil.copytree(root, tmp_path / "walk")
    exposures = [Exposure(0, 24, 8), Exposure(0, 64, 32), Exposure(8, 32, 16)]
    table = {f"{number:06d}": exposure for number, exposure in enumerate(exposures, start=1)}
    (copy / "train/a" / EXPOSURE_TABLE).write_text(exposure_table(table))
    size = measure_data(dataset(copy))
    assert (size.exposure_steps, size.recorded_steps) == (64, 88)


def test_spikes_that_cannot_be_read_count_as_those_of_gopro(root, tmp_path):
    copy = shutil.copytree(root, tmp_path / "walk")
    for path in copy.glob("*/*/spike/*.dat"):
        path.write_bytes(b"odd")
    size = measure_data(dataset(copy))
    assert (size.exposure_steps, size.recorded_steps) == (88, 88)
