"""Data sets on the grid and the clock of the spike sensor."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.data.calibration.two_cameras import SENSOR
from vrtspike.data.calibration.cameras import calibrate_camera
from vrtspike.data.calibration.resampling import resample
from vrtspike.data.calibration.time_offset import TimeOffset
from vrtspike.data.exposure import EXPOSURE_TABLE, Exposure, exposure_table, read_exposures
from vrtspike.io.images import write_png
from vrtspike.system.errors import DataError


def test_a_recording_without_sharp_frames_needs_no_sharp_instant(scenes, tmp_path):
    source = tmp_path / "data/train/moving"
    shutil.copytree(scenes / "data/train/moving", source)
    expected, _ = calibrate_camera(scenes / "static", source, SENSOR)
    recorded = read_exposures(source / EXPOSURE_TABLE)
    lines = [f"0{name},{exposure.start},{exposure.stop}" for name, exposure in recorded.items()]
    (source / EXPOSURE_TABLE).write_text("\n".join(["frame,start,stop", *lines, ""]))
    calibration, _ = calibrate_camera(scenes / "static", source, SENSOR)
    assert calibration == expected
    (folder,) = resample(calibration, tmp_path / "data", tmp_path / "out")
    for name, exposure in read_exposures(folder / EXPOSURE_TABLE).items():
        middle = (recorded[name].start + recorded[name].stop) / 2
        assert exposure.sharp == pytest.approx(middle + calibration.offset.offset_steps)
    # With sharp frames only the user knows which instants they show.
    shutil.copytree(source / "blur", source / "sharp")
    with pytest.raises(DataError, match=r"found the columns frame, start, stop, expected .* sharp"):
        resample(calibration, tmp_path / "data", tmp_path / "out")


@pytest.mark.parametrize("offset", [0.4, -0.4])
def test_a_sharp_instant_stays_within_its_exposure(scenes, tmp_path, offset):
    calibration, _ = calibrate_camera(scenes / "static", None, SENSOR)
    shutil.copytree(scenes / "data", tmp_path / "data")
    edges = {"4": Exposure(30, 118, 30), "16": Exposure(130, 218, 218)}
    table = "train/moving/exposures.csv"
    (tmp_path / "data" / table).write_text(exposure_table(edges))
    moved = replace(calibration, offset=TimeOffset(offset, None, 1.0))
    resample(moved, tmp_path / "data", tmp_path / "out")
    first, last = read_exposures(tmp_path / "out" / table).values()
    assert (first.start, first.sharp) == (30, 30 + max(0, offset))
    assert (last.stop, last.sharp) == (218, 218 + min(0, offset))


def test_unusable_recordings_are_named_and_nothing_is_written(scenes, tmp_path):
    shutil.copytree(scenes / "static", tmp_path / "static")
    write_png(tmp_path / "static/blur/2.png", np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(DataError, match=r"2\.png: 8 x 8, expected .* 240 x 320"):
        calibrate_camera(tmp_path / "static", None, SENSOR)
    calibration, _ = calibrate_camera(scenes / "static", None, SENSOR)
    source = tmp_path / "data/train/moving"
    output = tmp_path / "out"
    shutil.copytree(scenes / "data/train/moving", source)
    exposures = read_exposures(source / EXPOSURE_TABLE)
    for offset, frames in ((-40.0, "4"), (160.0, "16"), (-160.0, "4, 16")):
        with pytest.raises(DataError, match=rf"{offset:.2f} steps .* of {frames} leave the 320"):
            resample(
                replace(calibration, offset=TimeOffset(offset, None, 1.0)),
                tmp_path / "data",
                output,
            )
    assert resample(calibration, tmp_path / "data", output) == [output / "train/moving"]
    (source / "blur/4.png").unlink()
    (source / EXPOSURE_TABLE).write_text(exposure_table({"16": exposures["16"]}))
    resample(calibration, tmp_path / "data", output)
    assert [path.name for path in (output / "train/moving/blur").iterdir()] == ["16.png"]
    source.rename(source.with_name("renamed"))
    with pytest.raises(DataError, match=r"out/train/moving: no sequence of .* has this name"):
        resample(calibration, tmp_path / "data", output)
    (source.with_name("renamed") / "spike.dat").unlink()
    with pytest.raises(DataError, match=r"renamed/spike\.dat: no such file"):
        resample(calibration, tmp_path / "data", tmp_path / "other")
