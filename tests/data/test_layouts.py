from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from vrtspike.data.layouts import find_sequence, sensor_size
from vrtspike.data.survey import survey
from vrtspike.errors import DataError

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
    for part in (
        "0001_11_00: no blurry",
        "0002_11_00: no sharp",
        "valid: no seq",
        "0003_11_00/spike/*.dat and test",
    ):
        assert part in str(caught.value)


def test_another_blur_folder_is_another_data_set(dataset):
    with pytest.raises(DataError, match=r"no blurry frames \(.*/blur_gamma/"):
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


def test_planning_pays_for_nothing_heavy():
    code = "import sys, vrtspike.data.survey, vrtspike.data.versions; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"torch", "zarr", "pandas", "numpy", "cv2"}.isdisjoint(modules)
