from __future__ import annotations

import shutil

import pytest

from tests.deblurring.data.conftest import SEQUENCES
from vrtspike.deblurring.data.bundles import make_share
from vrtspike.deblurring.data.gate.ingest_share import Ingestion
from vrtspike.deblurring.data.manifests import STORE_SHARE
from vrtspike.deblurring.data.store import build_share as module
from vrtspike.deblurring.data.store.build_share import Building
from vrtspike.errors import DataError
from vrtspike.files import folder_size, read_json, write_json
from vrtspike.manifests import read_manifest

NAME = SEQUENCES[0]


def work(stage, folder):
    lines: list[str] = []
    output = folder / "shares/0-of-1.json"
    make_share(stage, sorted(SEQUENCES), folder, output, 1, lines.append)
    return sorted(line.split()[1].rstrip(":") for line in lines[1:]), read_json(output)["sequences"]


@pytest.fixture
def built(dataset, tmp_path):
    """All three stores; call it to build them again."""

    def again(bins=8):
        ingested = tmp_path / "ingest"
        work(Ingestion(str(dataset), ingested, "blur", "auto"), ingested)
        stores = tmp_path / f"k{bins}"
        return work(Building(str(dataset), ingested, bins, stores), stores)

    again()
    return again


def test_the_share_lists_what_the_stores_are(built, tmp_path):
    made, entries = built()
    assert made == []
    assert entries == read_manifest(tmp_path / "k8/shares/0-of-1.json", STORE_SHARE)["sequences"]
    path, store = tmp_path / "k8" / f"{NAME}.json", tmp_path / "k8" / f"{NAME}.zarr"
    ingested = read_json(tmp_path / "ingest/shares/0-of-1.json")["sequences"][NAME]
    files = [file for file in store.rglob("*") if file.is_file()]
    assert entries[NAME] == {
        "digest": read_json(path)["digest"],
        "ingested": ingested["contents"],
        "bytes": len(path.read_bytes()),
        "store": [len(files), sum(len(file.read_bytes()) for file in files)],
    }


def test_a_changed_raw_file_builds_its_store_again(built, dataset):
    _, before = built()
    path = dataset / NAME / "spike/000002.dat"
    contents = path.read_bytes()
    path.write_bytes(bytes([contents[100] ^ 1]) + contents[1:])
    made, after = built()
    assert made == [NAME]
    assert after[NAME]["digest"] != before[NAME]["digest"]
    assert built()[0] == []


def test_other_bins_are_other_stores_and_other_code_builds_all_again(built, monkeypatch):
    _, before = built()
    made, other = built(bins=4)
    assert made == sorted(SEQUENCES)
    assert other[NAME]["digest"] != before[NAME]["digest"]
    monkeypatch.setattr(module, "store_recipe", lambda bins: "of other code")
    made, after = built()
    assert made == sorted(SEQUENCES)
    assert {n: e["digest"] for n, e in after.items()} == {n: e["digest"] for n, e in before.items()}


@pytest.mark.parametrize("damage", ["store", "file", "shorter", "manifest", "cut", "old"])
def test_a_store_that_is_not_complete_is_built_again(built, tmp_path, damage):
    path = tmp_path / "k8" / f"{NAME}.json"
    store = path.with_suffix(".zarr")
    chunk = next(file for file in sorted(store.rglob("c/**/0")) if file.is_file())
    contents, size = path.read_bytes(), folder_size(store)
    if damage == "store":
        shutil.rmtree(store)
    elif damage == "file":
        chunk.unlink()
    elif damage == "shorter":
        chunk.write_bytes(chunk.read_bytes()[:-1])
    elif damage == "manifest":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(contents[:100])
    else:
        write_json(path, {k: v for k, v in read_json(path).items() if k != "recipe"})
    assert built()[0] == [NAME]
    assert (path.read_bytes(), folder_size(store)) == (contents, size)


def test_a_raw_file_that_changed_since_the_check_is_named_and_stops_no_other(
    built, dataset, tmp_path
):
    path = dataset / NAME / "spike/000002.dat"
    path.write_bytes(bytes(len(path.read_bytes())))
    shutil.rmtree(tmp_path / "k8")
    stage = Building(str(dataset), tmp_path / "ingest", 8, tmp_path / "k8")
    with pytest.raises(DataError, match=f"files of {NAME} changed since ingestion"):
        work(stage, tmp_path / "k8")
    stores = sorted(str(p.relative_to(tmp_path / "k8")) for p in tmp_path.glob("k8/*/*.zarr"))
    assert stores == sorted(f"{name}.zarr" for name in SEQUENCES[1:])
    assert not list(tmp_path.glob("k8/*/.*"))
    assert not (tmp_path / "k8/shares/0-of-1.json").exists()
