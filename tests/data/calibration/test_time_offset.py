"""The time offset between two cameras; ``test_cameras.py`` measures its error."""

from __future__ import annotations

import shutil

import pytest

from tests.data.calibration.two_cameras import SENSOR, write_scene
from tests.data.scenes import film
from vrtspike.data.calibration.cameras import calibrate_camera
from vrtspike.data.exposure import EXPOSURE_TABLE, Exposure, exposure_table
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.system.errors import DataError


def test_unusable_scenes_are_refused(scenes, tmp_path):
    still = film(3, 1, 2 * SENSOR[0], 2 * SENSOR[1])[0]
    exposures = {"1": Exposure(100, 188, 144)}
    write_scene(tmp_path / "still", {"1": still}, simulate_spikes([still] * 50), exposures)
    with pytest.raises(DataError, match="nothing moves"):
        calibrate_camera(scenes / "static", tmp_path / "still", SENSOR)
    late = Exposure(70, 158, 114)
    moving = scenes / "data/train/moving"
    shutil.copytree(moving, tmp_path / "late", ignore=shutil.ignore_patterns("16.png"))
    (tmp_path / "late" / EXPOSURE_TABLE).write_text(exposure_table({"4": late}))
    with pytest.raises(DataError, match="allow larger offsets"):
        calibrate_camera(scenes / "static", tmp_path / "late", SENSOR, max_steps=30)
    (tmp_path / "still" / EXPOSURE_TABLE).write_text(exposure_table({"2": exposures["1"]}))
    with pytest.raises(DataError, match=r"found 1 in only one of blur/"):
        calibrate_camera(scenes / "static", tmp_path / "still", SENSOR)
