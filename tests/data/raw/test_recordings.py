"""The sensor of a recording."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.data.raw.layouts.files import SensorArea, sensor_file
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.data.raw.recordings import find_sensor


@pytest.mark.parametrize(
    ("sensor", "frame", "columns"),
    [
        ((250, 416), (500, 800), 400),  # a Vidar dump "with head"
        ((250, 416), None, 400),  # frames of another camera
        ((1000, 1024), None, 1000),
        ((208, 416), (416, 832), 416),  # frames as wide as all columns
        ((416, 416), (832, 832), 416),
        ((360, 640), (720, 1280), 640),
        ((250, 400), (500, 800), 400),
    ],
)
def test_columns_of_the_picture(tmp_path, sensor, frame, columns):
    picture = find_sensor(tmp_path / "a.dat", sensor, None, frame=frame).area
    assert picture == SensorArea(0, 0, sensor[0], columns)


def test_what_tells_the_size_of_the_sensor_in_its_order(tmp_path):
    np.savez(tmp_path / "a.npz", spk=np.zeros((1, 20, 24), np.uint8))
    (tmp_path / "config.yaml").write_text("spike_h: 30\nspike_w: 32\n")
    spikes, beside = tmp_path / "a.npz", sensor_file(tmp_path / "a.npz")
    uhsr, frame = LAYOUTS["uhsr"], (96, 128)
    assert beside == tmp_path / "config.yaml"
    assert find_sensor(spikes, (40, 48), beside, uhsr, frame)[0] == (40, 48)
    assert find_sensor(spikes, None, beside, uhsr, frame)[0] == (30, 32)
    assert find_sensor(spikes, None, None, uhsr, frame)[0] == (20, 24)
    assert find_sensor(tmp_path / "a.dat", None, None, uhsr, frame)[0] == (250, 250)
    assert find_sensor(tmp_path / "a.dat", None, None, LAYOUTS["s_sdm"], frame)[0] == (24, 32)
    assert find_sensor(tmp_path / "a.dat", None, None, None, frame)[0] == (48, 64)
