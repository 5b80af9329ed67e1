"""Atomic files: the old contents or the new, never a part."""

from __future__ import annotations

import pytest

from vrtspike.files import (
    atomic_path,
    atomic_write_text,
    file_digest,
    finite_or_null,
    json_digest,
    read_json,
    write_json,
)


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "new/folder/a.txt"
    atomic_write_text(path, "one")
    atomic_write_text(path, "two")
    assert path.read_text() == "two"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    atomic_write_text(path, "old")

    def fail():
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_is_replaced_whole(tmp_path):
    path = tmp_path / "store.zarr"
    for contents in ("one", "two"):
        with atomic_path(path) as temporary:
            (temporary / "inner").mkdir(parents=True)
            (temporary / "inner" / contents).write_text(contents)
    assert [p.name for p in (path / "inner").iterdir()] == ["two"]
    assert list(tmp_path.iterdir()) == [path]


def test_the_temporary_name_keeps_the_suffix(tmp_path):
    with atomic_path(tmp_path / "a.png") as temporary:
        assert temporary.suffix == ".png"
        temporary.write_bytes(b"x")


def test_equal_values_give_equal_bytes(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1, "a": [1.5, "ü"]})
    write_json(tmp_path / "b.json", {"a": [1.5, "ü"], "b": 1})
    assert file_digest(tmp_path / "a.json") == file_digest(tmp_path / "b.json")
    assert read_json(tmp_path / "a.json") == {"a": [1.5, "ü"], "b": 1}
    assert json_digest({"a": 1, "b": 2}) == json_digest({"b": 2, "a": 1})


def test_numbers_that_json_lacks_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))


def test_json_has_null_for_what_is_not_finite():
    value = {"psnr": float("inf"), "steps": [1, float("nan"), 2.5], "name": "x"}
    assert finite_or_null(value) == {"psnr": None, "steps": [1, None, 2.5], "name": "x"}
