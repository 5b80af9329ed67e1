"""Atomic files: the old contents or the new, never a part."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from pathlib import Path

import pytest

from tests.faults.disks import full, missing, small_disk
from tests.helpers.concurrency import run_python
from vrtspike.io.files import (
    atomic_path,
    atomic_write_text,
    file_digest,
    file_stamp,
    finite_or_null,
    folder_size,
    json_digest,
    read_json,
    read_mapping,
    remove_leftovers,
    replaced_folder,
    write_errors_name,
    write_json,
)
from vrtspike.system.errors import EXIT_USER_ERROR, RunError


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "new/folder/a.txt"
    with atomic_path(path) as temporary:
        assert temporary.suffix == ".txt"
        temporary.write_text("one")
    atomic_write_text(path, "two")
    assert path.read_text() == "two"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_failed_write_keeps_the_previous_contents(tmp_path, kind):
    path = tmp_path / "a.txt"

    def write(contents, error=None):
        with atomic_path(path) as temporary:
            if kind == "folder":
                temporary.mkdir()
            (temporary / "a" if kind == "folder" else temporary).write_text(contents)
            if error is not None:
                raise error

    write("old")
    for error in (RuntimeError(), OSError(28, "the disk is full")):
        with pytest.raises(type(error)) as caught:
            write("half", error)
        assert caught.value is error
        assert (path / "a" if kind == "folder" else path).read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]
    assert error.filename == str(path)


@pytest.mark.parametrize(
    ("error_name", "expected"), [(None, "a.txt"), ("a.tmp", "a.txt"), ("b.txt", "b.txt")]
)
def test_an_error_of_a_write_names_the_file_and_not_its_temporary_name(error_name, expected):
    with (
        pytest.raises(OSError, match="broken") as caught,
        write_errors_name(Path("a.txt"), Path("a.tmp")),
    ):
        raise OSError(errno.EIO, "broken", error_name)
    assert caught.value.filename == expected


def test_the_mark_of_a_file_changes_with_every_write(tmp_path):
    path = tmp_path / "a.log"
    marks = [file_stamp(path)]
    for size, date in ((1, 1), (2, 1), (2, 2)):
        path.write_bytes(bytes(size))
        os.utime(path, (date, date))
        marks.append(file_stamp(path))
    path.rename(tmp_path / "b.log")  # so that its number is not given again
    path.write_bytes(bytes(2))
    os.utime(path, (2, 2))
    assert marks[0] is None
    assert len({*marks, file_stamp(path)}) == 5
    assert file_stamp(path) == file_stamp(path)


def test_equal_values_give_equal_bytes(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1, "a": [1.5, "ü"]})
    write_json(tmp_path / "b.json", {"a": [1.5, "ü"], "b": 1})
    assert file_digest(tmp_path / "a.json") == file_digest(tmp_path / "b.json")
    assert read_json(tmp_path / "a.json") == {"a": [1.5, "ü"], "b": 1}
    assert json_digest({"a": 1, "b": 2}) == json_digest({"b": 2, "a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))
    value = {"psnr": float("inf"), "steps": [1, float("nan"), 2.5], "name": "x"}
    assert finite_or_null(value) == {"psnr": None, "steps": [1, None, 2.5], "name": "x"}


def test_digests_are_of_all_contents(tmp_path):
    contents = bytes(range(256)) * 10_000
    (tmp_path / "large").write_bytes(contents)
    assert file_digest(tmp_path / "large") == hashlib.sha256(contents).hexdigest()
    values = [{"a": 1}, {"a": 2}, {"b": 1}, {"a": [1]}, {"a": {"b": 1}}, {"a": "1"}, {"a": "ü"}]
    assert len({json_digest(value) for value in values}) == len(values)
    assert json_digest({"a": "ü"}) == hashlib.sha256('{"a": "ü"}'.encode()).hexdigest()


def test_files_and_bytes_of_a_folder_are_counted(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_bytes(bytes(70))
    (tmp_path / "c").write_bytes(bytes(5))
    # As a file that is renamed while others are counted.
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert folder_size(tmp_path) == (2, 75)
    assert folder_size(tmp_path / "nosuch") == (0, 0)


def test_temporary_files_of_killed_writers_are_removed_after_a_day(tmp_path):
    with atomic_path(tmp_path / "a.b.json") as file, atomic_path(tmp_path / "c.zarr") as folder:
        file.touch()
        folder.mkdir()
        left = [
            path.rename(path.with_name(f".{'0' * 16}.tmp{path.suffix}")) for path in (file, folder)
        ]
        file.touch()
        folder.mkdir()
    kept = {tmp_path / name for name in (".a.tmp", ".hidden.json", f"{'0' * 16}.tmp")}
    for path in kept:
        path.touch()
    names = kept | {tmp_path / "a.b.json", tmp_path / "c.zarr"}
    for hours in (23, 25):
        for path in (*kept, *left):
            os.utime(path, (time.time() - hours * 3600,) * 2)
        remove_leftovers(tmp_path)
        assert {*tmp_path.iterdir()} == (names | {*left} if hours == 23 else names)
    # Who holds the folder alone need not wait.
    left[0].touch()
    remove_leftovers(tmp_path, older_than_s=0)
    assert {*tmp_path.iterdir()} == names


def test_a_leftover_that_cannot_be_removed_stops_nobody(tmp_path, monkeypatch):
    # As that of another user in a folder with the sticky bit.
    left = tmp_path / f".{'0' * 16}.tmp"
    left.touch()
    os.utime(left, (0, 0))

    def refuse(path: Path, **options: bool) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    remove_leftovers(tmp_path)
    assert left.exists()


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_full_disk_replaces_the_error_of_a_library(tmp_path):
    path = tmp_path / "disk/result"

    def fail(error: Exception) -> None:
        with atomic_path(path) as temporary:
            temporary.write_bytes(b"")
            raise error

    with small_disk(path.parent, 1):
        with pytest.raises(RuntimeError, match="unexpected pos"):
            fail(RuntimeError("unexpected pos 832 vs 726"))
        with full(path.parent):
            with pytest.raises(OSError, match="No space left on device") as refusal:
                fail(RuntimeError("unexpected pos 832 vs 726"))
            assert (refusal.value.errno, refusal.value.filename) == (errno.ENOSPC, str(path))
            with pytest.raises(RunError, match="what a user can fix"):
                fail(RunError("what a user can fix is told as it is"))
        assert [*path.parent.iterdir()] == []


LIMITED = """
import resource, sys
from pathlib import Path
import torch
from safetensors.torch import save_file
from vrtspike.io.files import atomic_path
from vrtspike.system.program import run_main

def write():
    with atomic_path(Path("weights")) as path:
        {save}({{"weight": torch.zeros(20_000)}}, path)

resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))
run_main(write)
"""


@pytest.mark.parametrize(
    "save", ["save_file", "torch.save", "lambda _, to: to.write_bytes(b'0' * 80_000)"]
)
def test_a_limit_of_file_sizes_is_reported_with_the_file(tmp_path, save):
    (tmp_path / "weights").write_bytes(b"before")
    done = run_python("-c", LIMITED.format(save=f"({save})"), cwd=tmp_path)
    assert done.returncode == EXIT_USER_ERROR
    assert done.stderr == (
        "error: weights: the file may not grow further (File too large); raise the limit "
        "(ulimit -f), or move RESULTS or RUNS, and run again\n"
    )
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("weights", b"before")
    ]


@pytest.mark.parametrize("stem", ["a" * 230, "场" * 75])
def test_the_longest_names_have_temporary_ones(tmp_path, stem):
    (tmp_path / f"{stem}.zarr").write_text("a file, which a folder replaces, too")
    for number in range(2):
        with replaced_folder(tmp_path / f"{stem}.zarr") as folder:
            (folder / "chunk").write_text(str(number))
    assert (tmp_path / f"{stem}.zarr/chunk").read_text() == "1"
    assert len([*tmp_path.iterdir()]) == 1


def test_a_link_to_a_folder_stays_where_it_leads(tmp_path):
    disk, project = tmp_path / "disk", tmp_path / "project"
    (disk / "store").mkdir(parents=True)
    (disk / "store/old").touch()
    project.mkdir()
    path = project / "store"
    path.symlink_to("../disk/store")
    with replaced_folder(path) as temporary:
        assert temporary.parent == disk, "on the disk of the folder"
        (temporary / "new").touch()
    assert path.readlink() == Path("../disk/store")
    assert [*project.iterdir(), *disk.iterdir()] == [path, disk / "store"]
    assert [*(disk / "store").iterdir()] == [disk / "store/new"]
    with pytest.raises(OSError, match="broken") as caught, replaced_folder(path):
        raise OSError(errno.EIO, "broken")
    assert caught.value.filename == str(path)


def test_links_that_were_moved_aside_are_removed_without_what_they_name(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/file").touch()
    for number, target in enumerate(("disk", "nowhere")):
        link = tmp_path / f".{number:016d}.old"
        link.symlink_to(target)
        os.utime(link, (0, 0), follow_symlinks=False)
    remove_leftovers(tmp_path)
    assert [*tmp_path.iterdir()] == [tmp_path / "disk"]
    assert (tmp_path / "disk/file").exists()


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_folder_replaces_that_of_another_writer(tmp_path, monkeypatch, is_moved):
    path, others = tmp_path / "store", tmp_path / "others"
    for folder in (path, others):
        folder.mkdir()
        (folder / "chunk").write_text("old")
    moves = [(others, path)]
    if is_moved:
        moves.insert(0, (path, tmp_path / "old"))
    rename = Path.rename

    def interleaved(source: Path, target: Path) -> Path:
        # The other writer moves a folder before each move of this one.
        if moves and (is_moved or target == path):
            rename(*moves.pop(0))
        return rename(source, target)

    with replaced_folder(path) as temporary:
        (temporary / "chunk").write_text("new")
        monkeypatch.setattr(Path, "rename", interleaved)
    assert not moves
    assert (path / "chunk").read_text() == "new"
    assert {*tmp_path.iterdir()} == ({path, tmp_path / "old"} if is_moved else {path})


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_the_umask_decides_about_a_file_that_a_library_writes_for_its_owner_alone(tmp_path, mask):
    def private(path):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))

    before = os.umask(mask)
    try:
        for path, write in ((tmp_path / "library", private), (tmp_path / "own", Path.touch)):
            with atomic_path(path) as temporary:
                write(temporary)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("library", "own")]
    assert modes == [0o666 & ~mask] * 2
    assert len(list(tmp_path.iterdir())) == 2


def test_too_deeply_nested_brackets_are_an_error_of_the_file(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000 + "]" * 200_000)
    with pytest.raises(
        RunError, match=r"deep\.json: damaged, no JSON .*nested too deeply.*; again"
    ):
        read_mapping(path, "again")
