from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from vrtspike.data.ingest import ingest_sequence
from vrtspike.data.layouts import find_sequence, sensor_size, source_version, survey
from vrtspike.errors import DataError
from vrtspike.files import write_json

SPLIT, NAME = "train", "GOPR0001_11_00"


def test_survey_finds_sequences_and_frames(dataset):
    (dataset / SPLIT / NAME / "blur" / "Thumbs.txt").write_text("stray")
    (dataset / "train" / ".hidden").mkdir()
    found = survey(dataset, ["train", "test"], "blur")
    assert found["layout"] == "spk_gopro"
    assert found["sequences"] == [
        {"split": "train", "name": "GOPR0001_11_00", "frames": 3},
        {"split": "train", "name": "GOPR0002_11_00", "frames": 3},
        {"split": "test", "name": "GOPR0003_11_00", "frames": 3},
    ]


def test_missing_root_says_what_to_set(tmp_path):
    with pytest.raises(DataError, match=r"DATA\.ROOT.*demo_data"):
        survey(tmp_path / "nowhere", ["train"], "blur")


def test_plain_gopro_is_told_that_spikes_are_missing(dataset):
    for folder in dataset.rglob("spike"):
        shutil.rmtree(folder)
    with pytest.raises(DataError, match=r"\(3\)(.|\n)*without spike recordings.*simulate\.py"):
        survey(dataset, ["train", "test"], "blur")


def test_all_incomplete_sequences_are_named_at_once(dataset):
    shutil.rmtree(dataset / "train" / "GOPR0001_11_00" / "blur")
    shutil.rmtree(dataset / "train" / "GOPR0002_11_00" / "sharp")
    shutil.copy(
        dataset / "test/GOPR0003_11_00/spike/000001.dat", dataset / "test/GOPR0003_11_00/spike.dat"
    )
    with pytest.raises(DataError) as caught:
        survey(dataset, ["train", "test", "valid"], "blur")
    for part in ("0001_11_00: no blurry", "0002_11_00: no sharp", "valid: no seq", "both spike/"):
        assert part in str(caught.value)


def test_another_blur_folder_is_another_data_set(dataset):
    with pytest.raises(DataError, match=r"no blurry frames \(blur_gamma"):
        survey(dataset, ["train"], "blur_gamma")


def test_stream_layout_is_recognised(dataset):
    folder = dataset / SPLIT / NAME
    parts = [path.read_bytes() for path in sorted((folder / "spike").iterdir())]
    shutil.rmtree(folder / "spike")
    (folder / "spike.dat").write_bytes(b"".join(parts))
    files = find_sequence(dataset, SPLIT, NAME, "blur")
    assert files.layout == "spk_gopro_stream"
    assert files.stream == f"{SPLIT}/{NAME}/spike.dat"
    assert survey(dataset, ["train"], "blur")["layout"] == "spk_gopro+spk_gopro_stream"


@pytest.mark.parametrize("place", [f"{SPLIT}/{NAME}/spike", f"{SPLIT}/{NAME}", SPLIT, "."])
def test_sensor_size_from_a_file_beside_the_spikes(dataset, place):
    assert sensor_size(dataset, find_sequence(dataset, SPLIT, NAME, "blur")) is None
    path = dataset / place / "config.yaml"
    path.write_text("# sensor\nspike_h: 250 # rows\nspike_w: '400'\nfps: 20000\n")
    files = find_sequence(dataset, SPLIT, NAME, "blur")
    assert sensor_size(dataset, files) == (250, 400)
    for text in ("spike_h: 250\n", "spike_h: 1\nspike_w: 2\nspike_h: 3\n"):
        path.write_text(text)
        with pytest.raises(DataError, match="once each"):
            sensor_size(dataset, files)


class TestSourceVersion:
    @pytest.fixture
    def manifest(self, dataset, tmp_path):
        path = tmp_path / "manifest.json"
        version = source_version(dataset, NAME, SPLIT, path)
        write_json(
            path,
            ingest_sequence(dataset, SPLIT, NAME, blur_dir="blur", source_version=version),
        )
        return path

    def version(self, dataset, manifest, **options):
        return source_version(dataset, NAME, SPLIT, manifest, **options)

    def test_touching_changes_nothing(self, dataset, manifest):
        before = self.version(dataset, manifest)
        os.utime(dataset / SPLIT / NAME / "blur" / "000002.png", (1, 1))
        assert self.version(dataset, manifest) == before

    def test_stray_files_and_other_sequences_change_nothing(self, dataset, manifest):
        before = self.version(dataset, manifest)
        (dataset / SPLIT / NAME / "notes.txt").write_text("stray")
        (dataset / SPLIT / "GOPR0002_11_00" / "blur" / "000002.png").write_bytes(b"")
        assert self.version(dataset, manifest) == before

    @pytest.mark.parametrize("kind", ["blur/000002.png", "sharp/000001.png", "spike/000003.dat"])
    def test_changed_missing_and_new_files_count(self, dataset, manifest, kind):
        path = dataset / SPLIT / NAME / kind
        versions = [self.version(dataset, manifest)]
        contents = bytearray(path.read_bytes())
        contents[-1] ^= 1
        path.write_bytes(contents)
        versions.append(self.version(dataset, manifest))
        path.rename(path.with_stem("000077"))
        versions.append(self.version(dataset, manifest))
        path.with_stem("000077").unlink()
        versions.append(self.version(dataset, manifest))
        assert len(set(versions)) == 4

    def test_going_back_brings_the_version_back(self, dataset, manifest):
        path = dataset / SPLIT / NAME / "spike" / "000001.dat"
        before, contents = self.version(dataset, manifest), path.read_bytes()
        path.write_bytes(bytes(len(contents)))
        assert self.version(dataset, manifest) != before
        path.write_bytes(contents)
        assert self.version(dataset, manifest) == before

    def test_a_broken_manifest_is_not_trusted(self, dataset, manifest):
        before = self.version(dataset, manifest)
        os.utime(dataset / SPLIT / NAME / "blur" / "000002.png", (1, 1))
        manifest.write_text("{")
        assert self.version(dataset, manifest) != before


def test_planning_pays_for_nothing_heavy():
    code = "import sys, vrtspike.data.layouts as _; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"torch", "zarr", "pandas", "numpy", "cv2"}.isdisjoint(modules)
