from __future__ import annotations

import pytest

from vrtspike.errors import ConfigError
from vrtspike.sst.area import Area


def test_the_size_of_the_globe_is_that_of_the_documents_example():
    area = Area("Global", lon=[-180, 180], lat=[-80, 80], description="all")
    resolution = 2
    assert (int(area.width / resolution), int(area.height / resolution)) == (180, 80)
    assert area.shape(resolution) == (80, 180)
    assert area.is_round


def test_a_region_may_cross_the_date_line():
    area = Area("Pacific", lon=[150, -90], lat=[-20, 20])
    assert (area.width, area.height) == (120.0, 40.0)
    assert not area.is_round
    # The same edges, counted from 0.
    assert Area("Pacific", lon=[150, 270], lat=[-20, 20]).width == 120.0


@pytest.mark.parametrize(
    ("lon", "lat", "words"),
    [
        ([0, 0], [-1, 1], "two different longitudes"),
        ([-180, 181], [-1, 1], "at most a turn apart"),
        ([-181, 0], [-1, 1], "from -180 to 360"),
        ([0, 361], [-1, 1], "from -180 to 360"),
        ([0, 10], [10, 10], "southern edge first"),
        ([0, 10], [20, 10], "southern edge first"),
        ([0, 10], [-91, 10], "from -90 to 90"),
        ([0, 10], [0, 91], "from -90 to 90"),
        ([0, 10, 20], [0, 10], "lon is"),
        ([0, 10], "ab", "lat is 'ab', expected two numbers"),
    ],
)
def test_edges_that_enclose_nothing_are_refused(lon, lat, words):
    with pytest.raises(ConfigError, match=words) as caught:
        Area("Spot", lon=lon, lat=lat)
    assert "Spot" in str(caught.value)


def test_a_region_that_is_no_whole_number_of_cells_is_refused():
    area = Area("A", lon=[0, 10], lat=[0, 9])
    with pytest.raises(ConfigError, match=r"9 degrees high.*cells of 2"):
        area.shape(2)
    with pytest.raises(ConfigError, match=r"10 degrees wide.*cells of 3"):
        area.shape(3)
    with pytest.raises(ConfigError, match="above 0"):
        area.shape(0)
    # 0.9 / 0.3 is not exactly 3 in binary.
    assert Area("B", lon=[0, 0.9], lat=[0, 0.3]).shape(0.3) == (1, 3)


def test_names_become_names_of_files():
    assert Area("北太平洋 / A.1", lon=[0, 1], lat=[0, 1]).slug == "北太平洋-a.1"
    assert Area("../x", lon=[0, 1], lat=[0, 1]).slug == "x"
    with pytest.raises(ConfigError, match="empty name"):
        Area("", lon=[0, 1], lat=[0, 1])


def test_json_brings_a_region_back():
    area = Area("A", lon=[170, -170], lat=[-5, 5], description="words")
    again = Area.from_json(area.as_json())
    assert (again, again.description) == (area, "words")
