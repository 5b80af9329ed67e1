from __future__ import annotations

import math

import numpy as np
import pytest

from vrtspike.errors import DataError
from vrtspike.sst.area import Area
from vrtspike.sst.grid import Grid, Regridder, axis_edges

GLOBE = Area("Globe", lon=[0, 360], lat=[-90, 90])


def era5_axes(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Points as ERA5 has them: both poles, falling; longitudes from 0."""
    return np.arange(90, -90 - step / 2, -step), np.arange(0, 360, step)


def test_rows_run_from_north_to_south_and_columns_from_west_to_east():
    grid = Grid(Area("A", lon=[170, -170], lat=[0, 4]), 2)
    assert grid.shape == (2, 10)
    assert grid.latitudes.tolist() == [3, 1]
    assert grid.longitudes.tolist() == [171, 173, 175, 177, 179, 181, 183, 185, 187, 189]


def test_areas_are_those_of_a_sphere():
    # Between the equator and 30 degrees lies half of a hemisphere: the sine of 30 degrees.
    areas = Grid(Area("North", lon=[0, 180], lat=[0, 90]), 30).areas()
    assert areas.sum() == pytest.approx(1)
    assert areas.sum(axis=1) == pytest.approx(
        [1 - math.sqrt(3) / 2, math.sqrt(3) / 2 - 0.5, 0.5], rel=1e-12
    )
    assert np.ptp(areas, axis=1).max() == pytest.approx(0)


def test_a_cell_is_the_mean_over_its_own_area():
    # Sixteen points at 1 degree on 45 N to 49 N; cells of 2 degrees whose edges cut none of them.
    lat, lon = np.array([48.5, 47.5, 46.5, 45.5]), np.array([10.5, 11.5, 12.5, 13.5])
    grid = Grid(Area("A", lon=[10, 14], lat=[45, 49]), 2)
    field = np.arange(16.0).reshape(4, 4) ** 2
    found = Regridder(lat, lon, grid, "a.nc")(field)
    edges = np.sin(np.deg2rad([49, 48, 47, 46, 45]))
    rows = edges[:-1] - edges[1:]
    for i in range(2):
        for j in range(2):
            weights = np.outer(rows[2 * i : 2 * i + 2], [1, 1])
            part = field[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            assert found[i, j] == pytest.approx((weights * part).sum() / weights.sum(), rel=1e-12)


def test_parts_of_cells_count_by_their_part():
    # One row; a cell from 0 to 3 degrees over points with cells of 2: all of one, half the next.
    lon, lat = np.array([1.0, 3.0, 5.0]), np.array([1.0, -1.0])
    grid = Grid(Area("A", lon=[0, 6], lat=[-1.5, 1.5]), 3)
    found = Regridder(lat, lon, grid, "a.nc")(np.array([[6.0, 0.0, 3.0], [6.0, 0.0, 3.0]]))
    assert found[0] == pytest.approx([(2 * 6 + 0) / 3, (0 + 2 * 3) / 3])


@pytest.mark.parametrize("step", [1.0, 2.0])
@pytest.mark.parametrize("resolution", [2.0, 5.0, 6.0])
def test_the_mean_over_the_globe_stays(step, resolution):
    lat, lon = era5_axes(step)
    field = np.random.default_rng(1).normal(size=(len(lat), len(lon)))
    grid = Grid(GLOBE, resolution)
    found = Regridder(lat, lon, grid, "a.nc")(field)
    # The cells at the poles are caps of half a step.
    edges = np.clip(np.append(lat + step / 2, -90), -90, 90)
    weights = -np.diff(np.sin(np.deg2rad(edges)))[:, None] * np.ones(len(lon))
    assert (found * grid.areas()).sum() == pytest.approx(np.average(field, weights=weights))


def test_all_ways_of_writing_axes_give_the_same():
    lat, lon = era5_axes(2.0)
    field = np.random.default_rng(2).normal(size=(len(lat), len(lon)))
    grid = Grid(Area("Pacific", lon=[150, -90], lat=[-30, 30]), 4)
    expected = Regridder(lat, lon, grid, "a.nc")(field)
    shifted = (lon + 180) % 360 - 180
    order = np.argsort(shifted)
    ways = {
        "rising latitudes": (lat[::-1], lon, field[::-1]),
        "from -180": (lat, shifted[order], field[:, order]),
        "across the date line": (
            lat,
            [d - 360 if d > 180 else d for d in np.arange(140.0, 280, 2)],
            field[:, 70:140],
        ),
    }
    for name, (rows, columns, values) in ways.items():
        assert Regridder(rows, columns, grid, name)(values) == pytest.approx(expected), name


@pytest.mark.parametrize(
    "edges", [[-180, 180], [0, 360], [350, 10], [-10, 10], [360, 340], [170, -170]]
)
def test_a_region_is_found_on_either_side_of_the_seam(edges):
    lat, lon = np.array([1.0, -1.0]), np.arange(1.0, 360, 2)
    grid = Grid(Area("Belt", lon=edges, lat=[-2, 2]), 2)
    # The field is the longitude, as a number that has no seam.
    for columns in (lon, (lon + 180) % 360 - 180):
        axis = np.sort(columns)
        field = np.tile(np.cos(np.deg2rad(axis)) + 2 * np.sin(np.deg2rad(axis)), (2, 1))
        found = Regridder(lat, axis, grid, "a.nc")(field)
        angle = np.deg2rad(grid.longitudes)
        assert found[0] == pytest.approx(np.cos(angle) + 2 * np.sin(angle))


def test_land_is_left_out_and_half_a_cell_of_sea_is_enough():
    lat, lon = np.array([0.5, -0.5]), np.array([0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
    grid = Grid(Area("A", lon=[0, 6], lat=[-1, 1]), 2)
    land = np.nan
    field = np.array([[7.0, land, 5.0, land, land, land], [land, 9.0, land, land, land, land]])
    found = Regridder(lat, lon, grid, "a.nc")(field)[0]
    # Two of four parts, one of four, none.
    assert found[0] == pytest.approx(8.0)
    assert np.isnan(found[1:]).all()


def test_fields_of_many_months_are_done_together():
    lat, lon = era5_axes(10.0)
    fields = np.random.default_rng(3).normal(size=(3, len(lat), len(lon)))
    regrid = Regridder(lat, lon, Grid(GLOBE, 20), "a.nc")
    assert regrid(fields)[1] == pytest.approx(regrid(fields[1]))


@pytest.mark.parametrize(
    ("lat", "lon", "words"),
    [
        ([3, 1, 2], [0, 1, 2], "latitude is out of order: found"),
        ([2, 1, 1], [0, 1, 2], "latitude is out of order"),
        ([1, 1, 1], [0, 1, 2], "latitude is out of order"),
        ([2, 1, 0], [0, 1, 3], "longitude is out of order"),
        ([2, 1, 0], [2, 1, 0], "expected evenly rising values"),
        ([2, 1, 0], [5, 4, 6], "longitude is out of order"),
        ([1], [0, 1, 2], "latitude has 1 value"),
        ([2, 1, float("nan")], [0, 1, 2], "latitude has 3 value"),
        ([2, 1, 0], np.arange(0, 361.0), "goes around more than once"),
        ([4, 2, 0], [0, 1, 2], "the steps of latitude are 2 degrees, coarser"),
        ([2, 1, 0], [0, 2, 4], "the steps of longitude are 2 degrees, coarser"),
        ([3, 2, 1], [0, 1, 2], "latitude covers 0.5 to 3.5.*reaches from 0 to 2"),
        ([2, 1, 0], [1, 2, 3], "longitude covers 0.5 to 3.5.*reaches from 0 to 2"),
    ],
)
def test_axes_that_cannot_be_used_are_named(lat, lon, words):
    grid = Grid(Area("A", lon=[0, 2], lat=[0, 2]), 1)
    with pytest.raises(DataError, match=words) as caught:
        Regridder(lat, lon, grid, "data/a.nc")
    assert str(caught.value).startswith("data/a.nc: ")


def test_axes_of_32_bits_are_even_enough():
    assert axis_edges(np.arange(0, 360, 0.1, dtype=np.float32), "longitude", "a")[-1] == (
        pytest.approx(359.95, abs=1e-3)
    )
