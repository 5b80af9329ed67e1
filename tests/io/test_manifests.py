"""Detection of changes in the files of a manifest."""

from __future__ import annotations

import os

import pytest

from vrtspike.io.files import write_json
from vrtspike.io.manifests import (
    ManifestKind,
    contents_digest,
    file_entry,
    is_unchanged,
    read_manifest,
    sealed,
)
from vrtspike.system.errors import DataError


def test_a_file_is_the_same_by_its_date_or_else_by_its_contents(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    files = {"a": file_entry(tmp_path, "a"), "gone": file_entry(tmp_path, "gone")}
    assert files["gone"] == {"path": "gone", "size": -1, "mtime_ns": -1, "digest": ""}

    def look(name: str = "a") -> tuple[bool, str]:
        unchanged = is_unchanged(tmp_path, files, name)
        return unchanged, contents_digest(tmp_path, files, name)

    digest = files["a"]["digest"]
    assert (look(), look("gone"), look("unknown")) == ((True, digest), (True, ""), (False, ""))
    # What it lists is not computed again while size and date are the same.
    files["a"]["digest"] = "listed"
    assert look() == (True, "listed")
    # What could not be read then and can be now is another file.
    files["a"]["digest"] = ""
    assert look()[0] is False
    files["a"]["digest"] = digest
    os.utime(path, (1, 1))
    assert look() == (True, digest)
    for contents in (b"two", b"three"):
        path.write_bytes(contents)
        assert look()[0] is False
        assert look()[1] not in (digest, "")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"schema": 2, "a": 1}, "found schema 2, expected 3; run make again"),
        ([], "found schema None, expected 3"),
    ],
)
def test_a_manifest_of_another_kind_is_refused(tmp_path, contents, message):
    kind = ManifestKind("list of things", 3, "make")
    write_json(tmp_path / "m.json", {"schema": 3, "a": 1, "c": 2})
    assert read_manifest(tmp_path / "m.json", kind) == {"schema": 3, "a": 1, "c": 2}
    write_json(tmp_path / "m.json", contents)
    with pytest.raises(DataError, match=rf"m\.json: .*{message}"):
        read_manifest(tmp_path / "m.json", kind)


@pytest.mark.parametrize("change", [{"gain": 99}, {"new": 1}, {"seal": ""}])
def test_a_manifest_that_was_edited_is_refused(tmp_path, change):
    kind, path = ManifestKind("list of things", 3, "make"), tmp_path / "m.json"
    contents = sealed({"schema": 3, "gain": 2.0000000001, "pair": (1, 2)})
    write_json(path, contents)
    assert read_manifest(path, kind)["gain"] == 2.0000000001
    write_json(path, {**contents, **change})
    with pytest.raises(
        DataError, match=r"m\.json: .* not those that make wrote.*delete it and run"
    ):
        read_manifest(path, kind)
