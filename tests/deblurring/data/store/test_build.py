from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

from tests.deblurring.data import prepared
from tests.deblurring.data.conftest import SEQUENCES
from tests.deblurring.data.scenes import film
from vrtspike.deblurring.data.clips.dataset import load_dataset
from vrtspike.deblurring.data.raw.spikes import read_spikes
from vrtspike.deblurring.data.simulation.sensor import SensorModel
from vrtspike.deblurring.data.simulation.sequence import write_sequence
from vrtspike.deblurring.data.store.build import build_store
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.data.store.voxels import voxelize
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import DataError
from vrtspike.io.files import read_json, write_json
from vrtspike.io.images import read_rgb


@pytest.fixture(scope="module")
def built(pristine, tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    prepared.built(pristine, SEQUENCES, results, bins=32)
    return results


def test_store_holds_what_the_raw_files_hold(built, pristine):
    name = SEQUENCES[0]
    manifest = read_json(built / "k32" / f"{name}.json")
    store = Store(built / "k32" / f"{name}.zarr")
    everything = (slice(0, 3), slice(None), slice(None))
    for kind in ("blur", "sharp"):
        expected = [read_rgb(pristine / name / kind / f"{n:06d}.png") for n in (1, 2, 3)]
        np.testing.assert_array_equal(store.read(kind, *everything), expected)
    spikes = [read_spikes(pristine / name / "spike" / f"{n:06d}.dat", 48, 64) for n in (1, 2, 3)]
    np.testing.assert_array_equal(
        store.read("voxels", *everything), [voxelize(s, 32, 40) for s in spikes]
    )
    bits = np.unpackbits(store.read("bits", *everything), axis=-1, bitorder="little")
    np.testing.assert_array_equal(bits, spikes)
    assert manifest["frames"] == ["000001", "000002", "000003"]
    assert manifest["spike_frames"] == [88, 88, 88]
    assert manifest["store"] == "GOPR0001_11_00.zarr"
    assert set(manifest["histogram"]) == set("1234567")


def test_too_many_bins_name_sequence_and_frame(pristine, tmp_path):
    with pytest.raises(DataError, match=r"GOPR0001_11_00, frame 000001: 82 voxel bins for 88"):
        prepared.built(pristine, SEQUENCES[:1], tmp_path, bins=82)
    assert not list(tmp_path.rglob("*.zarr"))


def test_raw_files_that_changed_since_ingestion_are_refused(dataset, tmp_path):
    (manifest,) = prepared.checked(dataset, SEQUENCES[:1], tmp_path)
    path = dataset / SEQUENCES[0] / "sharp" / "000002.png"
    os.utime(path, (1, 1))
    build_store(dataset, manifest, 32, tmp_path / "touched.json")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=r"changed since ingestion(.|\n)*sharp/000002\.png"):
        build_store(dataset, manifest, 32, tmp_path / "changed.json")


def merge(built, names=SEQUENCES, **options):
    return prepared.merged(built / "k32", names, **options)


@pytest.fixture(scope="module")
def sensors(tmp_path_factory):
    """Two sensors that see one scene, one of them with twice the threshold; and a third one."""
    folder = tmp_path_factory.mktemp("sensors")
    kinds = {"train/a": (1, 2.0, 11), "train/b": (2, 3.0, 7), "test/c": (1, 4.0, 11)}
    for name, (seed, theta, exposure) in kinds.items():
        write_sequence(
            folder / "raw" / name,
            film(seed, 34),
            frames_per_exposure=exposure,
            sensor=SensorModel(theta=theta),
        )
    prepared.prepared(folder / "raw", kinds, folder, bins=4)
    return folder


def test_statistics_are_exactly_those_of_the_training_split(sensors):
    merged = read_json(sensors / "k4" / "dataset.json")
    edges = {56: (0, 21, 24, 28, 56), 88: (0, 35, 40, 46, 88)}
    values = []
    for name in ("a", "b"):
        gain = read_json(sensors / "k4/train" / f"{name}.json")["gain"]
        for path in (sensors / "raw/train" / name / "spike").iterdir():
            spikes = read_spikes(path, 48, 64)
            ends = edges[len(spikes)]
            values += [gain * spikes[a:b].mean(axis=0) for a, b in itertools.pairwise(ends)]
    values = np.stack(values)
    assert merged["statistics"]["count"] == values.size
    assert merged["statistics"]["mean"] == pytest.approx(values.mean(), rel=1e-9)
    assert merged["statistics"]["std"] == pytest.approx(values.std(), rel=1e-9)


def test_each_sequence_has_its_own_gain_in_store_manifest_and_data_set(sensors):
    merged = read_json(sensors / "k4" / "dataset.json")
    gains = {e["sequence"]: e["gain"] for split in merged["splits"].values() for e in split}
    for name in ("train/a", "train/b", "test/c"):
        assert read_json(sensors / "k4" / f"{name}.json")["gain"] == gains[name[-1]]
        assert Store(sensors / "k4" / f"{name}.zarr").gain == gains[name[-1]]
    assert gains["c"] / gains["a"] == pytest.approx(2, rel=0.02)


def test_dataset_manifest_is_read_back(built):
    merged = merge(built)
    path = built / "k32" / "dataset.json"
    write_json(path, merged)
    dataset = load_dataset(path)
    assert (dataset.name, dataset.bins, dataset.blur_dir) == ("toy", 32, "blur")
    assert [e.name for e in dataset.split("train")] == ["GOPR0001_11_00", "GOPR0002_11_00"]
    assert [e.frames for e in dataset.split("test")] == [3]
    assert all((entry.store / "zarr.json").is_file() for entry in dataset.sequences)
    with pytest.raises(DataError, match="no split 'valid'; there are: test, train"):
        dataset.split("valid")
    settings = Settings.model_validate({"DATA": {"NORM": {"MEAN": 0.25, "STD": 0.5}}})
    assert dataset.statistics_for(settings.DATA).std == 0.5
    assert dataset.statistics_for(Settings().DATA) == dataset.statistics


def test_the_digest_follows_the_contents(built):
    digest = merge(built)["digest"]
    assert merge(built, reversed(SEQUENCES))["digest"] == digest
    assert merge(built, SEQUENCES[:2])["digest"] != digest
    # What was left out is recorded, too.
    excluded = {SEQUENCES[0]: ["cut"]}
    assert merge(built, SEQUENCES[1:], excluded=excluded)["excluded"] == excluded
    # The same stores with statistics of another split.
    other = merge(built, train_split="test")
    assert other["statistics"] != merge(built)["statistics"]
    assert other["digest"] != digest

    with pytest.raises(DataError, match="no sequence of the training split"):
        merge(built, SEQUENCES[2:])
