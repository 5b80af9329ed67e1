"""Atomic files: the old contents or the new, never a part."""

from __future__ import annotations

import hashlib

import pytest

from vrtspike.files import (
    atomic_path,
    atomic_write_text,
    file_digest,
    finite_or_null,
    folder_bytes,
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


def test_a_failed_directory_leaves_the_old_one(tmp_path):
    path = tmp_path / "result"
    with atomic_path(path) as temporary:
        temporary.mkdir()
        (temporary / "kept").touch()

    def fail():
        with atomic_path(path) as temporary:
            temporary.mkdir()
            (temporary / "half").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [each.name for each in path.iterdir()] == ["kept"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_says_where(tmp_path):
    path = tmp_path / "a.txt"

    def fail():
        with atomic_path(path) as temporary:
            temporary.touch()
            raise OSError(28, "the disk is full")

    with pytest.raises(OSError, match="full") as error:
        fail()
    assert error.value.filename == str(path)


def test_a_name_that_is_taken_by_a_folder_is_told_and_not_the_temporary_one(tmp_path):
    path = tmp_path / "a.txt"
    path.mkdir()
    with pytest.raises(OSError, match="directory") as error, atomic_path(path) as temporary:
        temporary.touch()
    assert error.value.filename == str(path)


def test_digests_are_of_all_contents(tmp_path):
    contents = bytes(range(256)) * 10_000
    (tmp_path / "large").write_bytes(contents)
    assert file_digest(tmp_path / "large") == hashlib.sha256(contents).hexdigest()
    values = [{"a": 1}, {"a": 2}, {"b": 1}, {"a": [1]}, {"a": {"b": 1}}, {"a": "1"}, {"a": "ü"}]
    assert len({json_digest(value) for value in values}) == len(values)
    assert json_digest({"a": "ü"}) == hashlib.sha256('{"a": "ü"}'.encode()).hexdigest()


def test_bytes_of_a_folder(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_bytes(bytes(70))
    (tmp_path / "c").write_bytes(bytes(5))
    # As a file that is renamed while others are counted.
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert folder_bytes(tmp_path) == 75
    assert folder_bytes(tmp_path / "nosuch") == 0
