"""The sensor of a recording."""

from __future__ import annotations

import pytest

from vrtspike.data.raw.layouts.files import SensorArea
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
