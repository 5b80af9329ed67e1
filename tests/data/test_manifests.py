"""Manifests of another version, damaged or missing: named, with what to run again."""

from __future__ import annotations

import pytest

from tests.data.prepared import merged
from vrtspike.data.alignment_table import alignment_table
from vrtspike.data.checks.accept import accept
from vrtspike.data.checks.options import AcceptOptions
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.manifests import ingest_digest
from vrtspike.data.store.writing import build_store, find_damage
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import write_json
from vrtspike.system.errors import DataError


@pytest.mark.parametrize(
    ("use", "stage"),
    [
        (lambda path: accept([path], AcceptOptions()), "ingest"),
        (lambda path: alignment_table([path]), "ingest"),
        (
            lambda path: build_store(
                path.parent, path, StoreOptions(bins=8), path.with_name("k.json")
            ),
            "ingest",
        ),
        (lambda path: merged(path.parent, [path.stem]), "voxelize"),
        (lambda path: find_damage(path), "voxelize"),
        (lambda path: load_dataset(path), "statistics"),
    ],
    ids=["accept", "alignment", "build", "merge", "verify", "load"],
)
def test_every_reader_refuses_a_manifest_of_another_version(tmp_path, use, stage):
    path = tmp_path / "manifest.json"
    write_json(path, {"schema": 0})
    with pytest.raises(DataError, match=f"found schema 0, expected .*run {stage} again"):
        use(path)


def test_the_digest_of_what_a_check_found_knows_contents_only():
    file = {"path": "a.png", "size": 7, "mtime_ns": 1, "digest": "d"}
    manifest = {"recipe": "one", "source_version": "one", "files": [file], "frames": ["1"]}
    before = ingest_digest(manifest)
    for other in (
        {"recipe": "other"},
        {"source_version": "other"},
        {"files": [{**file, "mtime_ns": 2}]},
    ):
        assert ingest_digest({**manifest, **other}) == before
    for other in (
        {"frames": ["2"]},
        {"faults": ["torn"]},
        *({"files": [{**file, key: "other"}]} for key in ("path", "size", "digest")),
    ):
        assert ingest_digest({**manifest, **other}) != before
