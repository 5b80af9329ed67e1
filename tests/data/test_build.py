from __future__ import annotations

import os

import numpy as np
import pytest

from vrtspike.config.schema import Settings
from vrtspike.data.build import build_store
from vrtspike.data.dataset import load_dataset, merge_dataset
from vrtspike.data.images import read_rgb
from vrtspike.data.ingest import ingest_sequence
from vrtspike.data.spikes import read_spikes
from vrtspike.data.store import open_store
from vrtspike.data.voxels import bin_steps, voxelize
from vrtspike.errors import DataError
from vrtspike.files import read_json, write_json

from .conftest import SEQUENCES


def build(root, results, name, bins=32):
    split, sequence = name.split("/")
    manifest = results / "ingest" / f"{name}.json"
    write_json(
        manifest,
        ingest_sequence(root, split, sequence, blur_dir="blur", source_version="v"),
    )
    return build_store(root, manifest, bins, results / f"k{bins}" / f"{name}.json")


@pytest.fixture(scope="module")
def built(pristine, tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    for name in SEQUENCES:
        build(pristine, results, name)
    return results


def test_store_holds_what_the_raw_files_hold(built, pristine):
    name = SEQUENCES[0]
    manifest = read_json(built / "k32" / f"{name}.json")
    store = open_store(built / "k32" / f"{name}.zarr")
    everything = (slice(0, 3), slice(None), slice(None))
    for kind in ("blur", "sharp"):
        expected = [read_rgb(pristine / name / kind / f"{n:06d}.png") for n in (1, 2, 3)]
        np.testing.assert_array_equal(store.read(kind, *everything), expected)
    spikes = [read_spikes(pristine / name / "spike" / f"{n:06d}.dat", 48, 64) for n in (1, 2, 3)]
    np.testing.assert_array_equal(
        store.read("voxels", *everything), [voxelize(s, 32) for s in spikes]
    )
    bits = np.unpackbits(store.read("bits", *everything), axis=-1, bitorder="little")
    np.testing.assert_array_equal(bits, spikes)
    assert manifest["frames"] == ["000001", "000002", "000003"]
    assert manifest["spike_frames"] == [88, 88, 88]
    assert manifest["store"] == "GOPR0001_11_00.zarr"
    assert set(manifest["histogram"]) == {"2", "3"}


def test_building_again_gives_the_same_digest(built, pristine, tmp_path):
    again = build(pristine, tmp_path, SEQUENCES[0])
    assert again == read_json(built / "k32" / f"{SEQUENCES[0]}.json")


def test_too_many_bins_name_sequence_and_frame(pristine, tmp_path):
    with pytest.raises(DataError, match=r"GOPR0001_11_00, frame 000001: 89 voxel bins for 88"):
        build(pristine, tmp_path, SEQUENCES[0], bins=89)
    assert not list(tmp_path.rglob("*.zarr"))


def test_raw_files_that_changed_since_ingestion_are_refused(dataset, tmp_path):
    build(dataset, tmp_path, SEQUENCES[0])
    manifest = tmp_path / "ingest" / f"{SEQUENCES[0]}.json"
    path = dataset / SEQUENCES[0] / "sharp" / "000002.png"
    os.utime(path, (1, 1))
    build_store(dataset, manifest, 32, tmp_path / "touched.json")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=r"changed since ingestion(.|\n)*sharp/000002\.png"):
        build_store(dataset, manifest, 32, tmp_path / "changed.json")


def merge(built, names=SEQUENCES, **options):
    paths = [built / "k32" / f"{name}.json" for name in names]
    return merge_dataset(
        paths, **{"dataset": "toy", "bins": 32, "folder": built / "k32", **options}
    )


def test_statistics_are_exactly_those_of_the_training_split(built, pristine):
    merged = merge(built)
    rates = []
    for name in SEQUENCES[:2]:
        for n in (1, 2, 3):
            spikes = read_spikes(pristine / name / "spike" / f"{n:06d}.dat", 48, 64)
            rates.append(voxelize(spikes, 32) / bin_steps(88, 32)[:, None, None])
    values = np.log1p(np.stack(rates))
    assert merged["statistics"]["count"] == values.size
    assert merged["statistics"]["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert merged["statistics"]["std"] == pytest.approx(values.std(), rel=1e-12)


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


def test_the_digest_follows_the_contents(built, pristine, tmp_path):
    digest = merge(built)["digest"]
    assert merge(built, reversed(SEQUENCES))["digest"] == digest
    assert merge(built, folder=tmp_path)["digest"] == digest
    assert merge(built, SEQUENCES[:2])["digest"] != digest


def test_manifests_that_do_not_belong_together(built, pristine, tmp_path):
    with pytest.raises(DataError, match="given twice"):
        merge(built, [*SEQUENCES, SEQUENCES[0]])
    with pytest.raises(DataError, match="built with 32 bins, 8 expected"):
        merge(built, bins=8)
    with pytest.raises(DataError, match="no sequence of the training split"):
        merge(built, SEQUENCES[2:])
    with pytest.raises(DataError, match="run statistics again"):
        load_dataset(tmp_path / "nothing.json")
