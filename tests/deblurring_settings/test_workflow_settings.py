"""Settings of the simulated sensor that exclude each other."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from vrtspike.deblurring_settings.workflow_settings import SensorSettings


def test_faulty_pixels_are_no_more_than_all_pixels():
    sensor = SensorSettings(HOT_PIXELS=0.25, DEAD_PIXELS=0.75)
    assert (sensor.HOT_PIXELS, sensor.DEAD_PIXELS) == (0.25, 0.75)
    with pytest.raises(ValidationError, match="HOT_PIXELS and DEAD_PIXELS are more than all"):
        SensorSettings(HOT_PIXELS=0.5, DEAD_PIXELS=0.75)
