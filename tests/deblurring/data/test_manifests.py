"""Manifests of another version, damaged or missing: named, with what to run again."""

from __future__ import annotations

import pytest

from vrtspike.deblurring.data.clips.dataset import load_dataset, merge_dataset
from vrtspike.deblurring.data.gate.accept import accept, alignment_rows
from vrtspike.deblurring.data.manifests import (
    DATASET,
    INGESTED,
    SURVEY,
    contents_digest,
)
from vrtspike.deblurring.data.store.build import build_store
from vrtspike.deblurring.data.store.verify import verify_store
from vrtspike.errors import DataError
from vrtspike.io.files import write_json
from vrtspike.io.manifests import read_manifest


def whole(kind):
    return {**dict.fromkeys(kind.keys), "schema": kind.schema}


KINDS = [SURVEY, DATASET]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_only_whole_manifests_of_this_version_are_read(tmp_path, kind):
    path = tmp_path / "manifest.json"
    write_json(path, whole(kind))
    assert read_manifest(path, kind) == whole(kind)
    key = sorted(kind.keys)[0]
    for contents, fault in (
        ({**whole(kind), "schema": 99}, f"found schema 99, expected {kind.schema}"),
        ({k: v for k, v in whole(kind).items() if k != "schema"}, "found schema None"),
        ({k: v for k, v in whole(kind).items() if k != key}, f"a {kind.name} without {key}"),
        ([1, 2], "found schema None"),
    ):
        write_json(path, contents)
        with pytest.raises(DataError) as caught:
            read_manifest(path, kind)
        for part in (str(path), kind.name, fault, f"run {kind.stage} again"):
            assert part in str(caught.value)


@pytest.mark.parametrize(
    ("use", "stage"),
    [
        (lambda path: accept([path]), "ingest"),
        (lambda path: alignment_rows([path]), "ingest"),
        (lambda path: build_store(path.parent, path, 8, path.with_name("k.json")), "ingest"),
        (lambda path: merge_dataset([path], dataset="d", bins=8, folder="."), "voxelize"),
        (lambda path: verify_store(path), "voxelize"),
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
    found = {**whole(INGESTED), "files": [file], "frames": ["1"]}
    before = contents_digest(found)
    for other in (
        {"recipe": "other"},
        {"source_version": "other"},
        {"files": [{**file, "mtime_ns": 2}]},
    ):
        assert contents_digest({**found, **other}) == before
    for other in (
        {"frames": ["2"]},
        {"faults": ["torn"]},
        *({"files": [{**file, key: "other"}]} for key in ("path", "size", "digest")),
    ):
        assert contents_digest({**found, **other}) != before
