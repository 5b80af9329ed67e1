"""Stores and the manifest of a data set, written from raw files."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from tests.data.conftest import SEQUENCES
from tests.data.prepared import built, checked, merged
from tests.data.scenes import film
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.data.store import writing
from vrtspike.data.store.reading import Store
from vrtspike.data.store.writing import build_store, write_store
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import read_json, write_json
from vrtspike.io.images import read_rgb, write_png
from vrtspike.system.errors import DataError

THETA = {"train/a": 2.0, "train/b": 3.0, "test/c": 4.0}
"""Thresholds of the sensors of the sequences; ``a`` and ``c`` show one scene."""
EDGES = {56: (0, 21, 24, 28, 56), 88: (0, 35, 40, 46, 88)}
"""Of four bins, by the steps of an exposure."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Raw files, stores and the manifest of the data set; not to be changed."""
    folder = tmp_path_factory.mktemp("sensors")
    for name, (seed, exposure) in zip(THETA, ((1, 11), (2, 7), (1, 11)), strict=True):
        write_sequence(
            folder / "raw" / name,
            film(seed, 34),
            frames_per_exposure=exposure,
            sensor=SimulatedSensor(THETA=THETA[name]),
        )
    built(folder / "raw", THETA, folder, bins=4)
    write_json(folder / "k4/dataset.json", merged(folder / "k4", THETA))
    return folder


def binned(folder, name):
    """Spikes of each bin of a sequence, (T, h, w), exposure by exposure."""
    streams = [read_spikes(path, 48, 64) for path in sorted((folder / name / "spike").iterdir())]
    return [[s[a:b] for a, b in itertools.pairwise(EDGES[len(s)])] for s in streams]


def test_store_holds_what_the_raw_files_hold(folder):
    name, everything = "train/a", (slice(0, 3), slice(None), slice(None))
    manifest, store = read_json(folder / f"k4/{name}.json"), Store(folder / f"k4/{name}.zarr")
    for kind in ("blur", "sharp"):
        expected = [read_rgb(folder / f"raw/{name}/{kind}/{n:06d}.png") for n in (1, 2, 3)]
        np.testing.assert_array_equal(store.read(kind, *everything), expected)
    spikes = binned(folder / "raw", name)
    counts = [[part.sum(axis=0) for part in parts] for parts in spikes]
    np.testing.assert_array_equal(store.read("voxels", *everything), counts)
    bits = np.unpackbits(store.read("bits", *everything), axis=-1, bitorder="little")
    np.testing.assert_array_equal(bits, [np.concatenate(parts) for parts in spikes])
    assert manifest["frames"] == ["000001", "000002", "000003"]
    assert manifest["spike_frames"] == [88, 88, 88]
    assert set(manifest["histogram"]) == {"35", "5", "6", "42"}


def test_raw_files_that_changed_since_ingestion_are_refused(dataset, tmp_path):
    (manifest,) = checked(dataset, SEQUENCES[:1], tmp_path)
    path = dataset / SEQUENCES[0] / "sharp" / "000002.png"
    os.utime(path, (1, 1))
    build_store(dataset, manifest, StoreOptions(bins=32), tmp_path / "touched.json")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=r"changed since ingestion(.|\n)*sharp/000002\.png"):
        build_store(dataset, manifest, StoreOptions(bins=32), tmp_path / "changed.json")


def test_raw_files_that_change_while_they_are_read_are_refused(dataset, tmp_path, monkeypatch):
    (manifest,) = checked(dataset, SEQUENCES[:1], tmp_path)

    def replacing(path, metadata, frames):
        write_png(dataset / SEQUENCES[0] / "blur/000001.png", np.zeros((96, 128, 3), np.uint8))
        return write_store(path, metadata, frames)

    monkeypatch.setattr(writing, "write_store", replacing)
    with pytest.raises(DataError, match=r"blur/000001\.png"):
        build_store(dataset, manifest, StoreOptions(bins=32), tmp_path / "new.json")
    assert not (tmp_path / "new.json").exists()


def test_no_former_manifest_is_beside_a_new_store(dataset, tmp_path, monkeypatch):
    (manifest,) = checked(dataset, SEQUENCES[:1], tmp_path / "ingest")
    output = tmp_path / "k.json"
    build_store(dataset, manifest, StoreOptions(bins=32), output)
    former = read_json(output)

    def end(path: Path, value: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "write_json", end)
    with pytest.raises(KeyboardInterrupt):
        build_store(dataset, manifest, StoreOptions(bins=16), output)
    assert Store(tmp_path / "k.zarr").metadata.bins == 16
    assert not output.exists()

    # A former store that was not replaced keeps its manifest.
    monkeypatch.undo()
    build_store(dataset, manifest, StoreOptions(bins=32), output)
    (dataset / SEQUENCES[0] / "sharp" / "000002.png").write_bytes(b"x")
    with pytest.raises(DataError, match="changed since ingestion"):
        build_store(dataset, manifest, StoreOptions(bins=16), output)
    assert read_json(output) == former


def test_statistics_are_exactly_those_of_the_training_split(folder):
    values = []
    for name in ("train/a", "train/b"):
        gain = read_json(folder / f"k4/{name}.json")["gain"]
        for parts in binned(folder / "raw", name):
            values += [gain * part.mean(axis=0) for part in parts]
    statistics = read_json(folder / "k4/dataset.json")["statistics"]
    assert statistics["count"] == np.stack(values).size
    assert statistics["mean"] == pytest.approx(np.mean(values), rel=1e-9)
    assert statistics["std"] == pytest.approx(np.std(values), rel=1e-9)


def test_each_sequence_has_its_own_gain_which_an_ideal_sensor_has_as_threshold(folder):
    splits = read_json(folder / "k4/dataset.json")["splits"]
    gains = {f"{split}/{e['sequence']}": e["gain"] for split in splits for e in splits[split]}
    assert gains == pytest.approx(THETA, rel=0.02)
    for name, gain in gains.items():
        assert read_json(folder / f"k4/{name}.json")["gain"] == gain
        assert Store(folder / f"k4/{name}.zarr").gain == gain


def test_dataset_manifest_is_read_back(folder):
    dataset = load_dataset(folder / "k4/dataset.json")
    assert (dataset.name, dataset.stores.bins, dataset.blur_dir) == ("toy", 4, "blur")
    assert [(e.name, e.frames) for e in dataset.split("train")] == [("a", 3), ("b", 4)]
    assert all((entry.store / "zarr.json").is_file() for entry in dataset.sequences)
    with pytest.raises(DataError, match="no split 'valid'; there are: test, train"):
        dataset.split("valid")
    settings = DeblurringSettings.model_validate({"DATA": {"NORM": {"MEAN": 0.25, "STD": 0.5}}})
    assert dataset.statistics_for(settings.DATA).std == 0.5
    assert dataset.statistics_for(DeblurringSettings().DATA) == dataset.statistics


def test_the_digest_follows_the_contents(folder):
    stores, names = folder / "k4", list(THETA)
    digest = merged(stores, names)["digest"]
    assert merged(stores, reversed(names))["digest"] == digest
    assert merged(stores, names[:2])["digest"] != digest
    # What was left out is recorded, too.
    excluded = {"train/a": ["cut"]}
    assert merged(stores, names[1:], excluded=excluded)["excluded"] == excluded
    # The same stores with statistics of another split.
    other = merged(stores, names, train_split="test")
    assert other["statistics"] != merged(stores, names)["statistics"]
    assert other["digest"] != digest
    with pytest.raises(DataError, match="no sequence of the training split"):
        merged(stores, names[2:])
