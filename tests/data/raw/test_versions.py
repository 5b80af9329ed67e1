"""Versions of raw files, of folders and of recordings: what changes them and what does not."""

from __future__ import annotations

import os

import pytest

from tests.data.prepared import check
from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.versions import folder_version, input_version, source_version
from vrtspike.io.files import write_json
from vrtspike.system.errors import DataError

SPLIT, NAME = "train", "GOPR0001_11_00"


@pytest.fixture
def sequence(dataset):
    (dataset / SPLIT / NAME / "config.yaml").write_text("spike_h: 48\nspike_w: 64\n")
    return dataset / SPLIT / NAME


@pytest.fixture
def manifest(dataset, tmp_path):
    return tmp_path / "manifest.json"


@pytest.fixture
def version(dataset, sequence, manifest):
    """Says the version of a sequence that was ingested."""

    def ask():
        return source_version(
            dataset, find_sequence(RawFolder(dataset), f"{SPLIT}/{NAME}"), manifest
        )

    write_json(manifest, {**check(dataset, f"{SPLIT}/{NAME}"), "source_version": ask()})
    return ask


def test_touched_and_stray_files_and_other_sequences_change_nothing(sequence, version):
    before = version()
    os.utime(sequence / "blur/000002.png", (1, 1))
    (sequence / "notes.txt").write_text("stray")
    (sequence.parent / "GOPR0002_11_00/blur/000002.png").write_bytes(b"")
    assert version() == before


@pytest.mark.parametrize("later", [1, -(10**12)])
def test_a_changed_file_of_the_same_size_is_found_by_any_other_date(sequence, version, later):
    path = sequence / "spike/000002.dat"
    before, date = version(), path.stat().st_mtime_ns
    path.write_bytes(bytes(path.stat().st_size))
    os.utime(path, ns=(date, date + later))
    if path.stat().st_mtime_ns == date:
        pytest.skip("this file system keeps no nanoseconds")
    assert version() != before


@pytest.mark.parametrize(
    "file", ["blur/000002.png", "sharp/000001.png", "spike/000003.dat", "config.yaml"]
)
def test_changed_missing_and_new_files_count(sequence, version, file):
    path = sequence / file
    contents, versions = path.read_bytes(), [version()]
    path.write_bytes(contents[:-1] + bytes([contents[-1] ^ 1]))
    versions.append(version())
    path.unlink()
    versions.append(version())
    path.with_name(f"000077{path.suffix}").write_bytes(contents)
    assert len({*versions, version()}) == (4 if path.parent != sequence else 3)
    path.with_name(f"000077{path.suffix}").unlink()
    path.write_bytes(contents)
    assert version() == versions[0]


def test_a_link_that_leads_nowhere_is_for_the_job_to_report(dataset, sequence, version, manifest):
    before = version()
    path = sequence / "blur/000002.png"
    path.unlink()
    path.symlink_to("nowhere.png")
    current = version()
    assert current != before
    write_json(manifest, {**check(dataset, f"{SPLIT}/{NAME}"), "source_version": current})
    assert version() == current


def test_a_broken_manifest_is_not_trusted(sequence, version, manifest):
    before = version()
    os.utime(sequence / "blur/000002.png", (1, 1))
    manifest.write_text("{")
    assert version() != before


# --- Of folders, by blocks of their files ---------------------------------------------------------


def test_names_and_contents_of_a_folder_count_and_dates_do_not(tmp_path):
    for number in range(3):
        (tmp_path / f"{number:06d}.png").write_bytes(bytes(100_000))
    versions = [folder_version(tmp_path)]
    os.utime(tmp_path / "000001.png", (0, 0))
    assert folder_version(tmp_path) == versions[0]
    for place in (0, 50_000, -1):
        contents = bytearray(100_000)
        contents[place] = 1
        (tmp_path / "000001.png").write_bytes(contents)
        versions.append(folder_version(tmp_path))
    (tmp_path / "000002.png").rename(tmp_path / "000009.png")
    versions.append(folder_version(tmp_path))
    (tmp_path / "train").mkdir()
    (tmp_path / "000009.png").rename(tmp_path / "train/000009.png")
    versions.append(folder_version(tmp_path))
    (tmp_path / "train/000009.png").unlink()
    assert len({*versions, folder_version(tmp_path)}) == 7


def test_names_need_not_be_utf_8(tmp_path):
    versions = []
    for name in (b"caf\xe9.png", b"caf\xe8.png", "café.png".encode()):
        folder = tmp_path / str(len(versions))
        folder.mkdir()
        (folder / os.fsdecode(name)).touch()
        versions.append(folder_version(folder))
    assert len(set(versions)) == 3


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: found no regular file"):
        input_version([tmp_path / "a.png"])
