"""Area-weighted regridding: means, axes, regions across the seam, coasts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.sst.conftest import cell_means
from vrtspike.sst.grid import Area, Grid
from vrtspike.system.errors import ConfigError, DataError

GLOBE = Area("Globe", lon=[0, 360], lat=[-90, 90])


def era5_axes(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Points as ERA5 has them: both poles, falling; longitudes from 0."""
    return np.arange(90, -90 - step / 2, -step), np.arange(0, 360, step)


def test_a_cell_is_the_mean_over_its_own_area():
    # Sixteen points at 1 degree on 45 N to 49 N; cells of 2 degrees whose edges cut none of them.
    lat, lon = np.array([48.5, 47.5, 46.5, 45.5]), np.array([10.5, 11.5, 12.5, 13.5])
    grid = Grid(Area("A", lon=[10, 14], lat=[45, 49]), 2)
    field = np.arange(16.0).reshape(4, 4) ** 2
    result = cell_means(field, lat, lon, grid)
    edges = np.sin(np.deg2rad([49, 48, 47, 46, 45]))
    rows = edges[:-1] - edges[1:]
    for i in range(2):
        for j in range(2):
            weights = np.outer(rows[2 * i : 2 * i + 2], [1, 1])
            part = field[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            assert result[i, j] == pytest.approx((weights * part).sum() / weights.sum(), rel=1e-12)


@pytest.mark.parametrize("step", [1.0, 2.0])
@pytest.mark.parametrize("resolution", [2.0, 5.0, 6.0])
def test_the_global_mean_is_conserved(step, resolution):
    lat, lon = era5_axes(step)
    field = np.random.default_rng(1).normal(size=(len(lat), len(lon)))
    grid = Grid(GLOBE, resolution)
    result = cell_means(field, lat, lon, grid)
    # The cells at the poles are caps of half a step.
    edges = np.clip(np.append(lat + step / 2, -90), -90, 90)
    weights = -np.diff(np.sin(np.deg2rad(edges)))[:, None] * np.ones(len(lon))
    assert (result * grid.shares(GLOBE)).sum() == pytest.approx(np.average(field, weights=weights))


def test_the_order_and_range_of_axes_do_not_matter():
    lat, lon = era5_axes(2.0)
    field = np.random.default_rng(2).normal(size=(len(lat), len(lon)))
    grid = Grid(Area("Pacific", lon=[150, -90], lat=[-30, 30]), 4)
    expected = cell_means(field, lat, lon, grid)
    mixed = np.random.default_rng(4).permutation(len(lon))
    across = (np.arange(140.0, 280, 2) + 180) % 360 - 180
    for name, rows, columns, values in (
        ("rising latitudes", lat[::-1], lon, field[::-1]),
        ("mixed, of 32 bits", lat.astype(np.float32), lon[mixed], field[:, mixed]),
        ("across the date line", lat, across, field[:, 70:140]),
    ):
        assert cell_means(values, rows, columns, grid) == pytest.approx(expected), name


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
        result = cell_means(field, lat, axis, grid)
        angle = np.deg2rad(grid.longitudes)
        assert result[0] == pytest.approx(np.cos(angle) + 2 * np.sin(angle))


def test_land_is_left_out_and_half_a_cell_of_sea_is_enough():
    lat, lon = np.array([0.5, -0.5]), np.array([0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
    grid = Grid(Area("A", lon=[0, 6], lat=[-1, 1]), 2)
    land = np.nan
    field = np.array([[7.0, land, 5.0, land, land, land], [land, 9.0, land, land, land, land]])
    result = cell_means(field, lat, lon, grid)[0]
    # Two of four parts, one of four, none.
    assert result[0] == pytest.approx(8.0)
    assert np.isnan(result[1:]).all()


@pytest.mark.parametrize(
    ("lat", "lon", "words"),
    [
        ([1], [0, 1, 2], "latitude are nan degrees from 1 to 1, expected steps up to the resol"),
        ([1, 1, 1], [0, 1, 2], "latitude are 0 degrees"),
        ([4, 2, 0], [0, 1, 2], "latitude are 2 degrees from 0 to 4, .* the resolution of 1"),
        ([2, 1, 0], [0, 2, 4], "longitude are 2 degrees"),
        ([2, 1, 1, 0], [0, 1, 2], "latitude are 1 degrees .* cover area A once and evenly"),
        ([2, 1, 0], [1, 2, 3], "longitude are 1 degrees from 1 to 3"),
        ([2, 1, 0], [0, 1, 2.5, 3.5], "longitude are 1 degrees"),
        ([2, 1, 0], np.arange(0, 361.0), "longitude are 1 degrees from 0 to 360"),
    ],
)
def test_axes_that_cannot_be_used_are_named(lat, lon, words):
    grid = Grid(Area("A", lon=[0, 2], lat=[0, 2]), 1)
    with pytest.raises(DataError, match=f"^data/a.nc: the steps of {words}"):
        cell_means(np.ones((len(lat), len(lon))), lat, lon, grid, "data/a.nc")


@pytest.mark.parametrize(
    ("lon", "lat"),
    [
        ([0, 0], [-1, 1]),
        ([-181, 0], [-1, 1]),
        ([0, 361], [-1, 1]),
        ([360, -0.5], [0, 10]),
        ([0, 10], [10, 10]),
        ([0, 10], [-91, 10]),
        ([0, 10], [0, 91]),
    ],
)
def test_edges_without_an_area_are_refused(lon, lat):
    with pytest.raises(ValueError, match=r"area Spot: found lon .*, expected two longitudes"):
        Area("Spot", lon=lon, lat=lat)


def test_a_region_that_is_no_whole_number_of_cells_is_refused():
    area = Area("A", lon=[0, 10], lat=[0, 9])
    with pytest.raises(ConfigError, match=r"9 degrees high.*cells of 2;"):
        Grid(area, 2)
    with pytest.raises(ConfigError, match=r"10 wide.*cells of 3;"):
        Grid(area, 3)
    # 0.9 / 0.3 is not exactly 3 in binary.
    assert Grid(Area("B", lon=[0, 0.9], lat=[0, 0.3]), 0.3).shape == (1, 3)


def test_shares_of_a_box_are_its_area_on_the_sphere():
    grid = Grid(Area("Pacific", lon=[160, -80], lat=[-12, 12]), 8)
    shares = grid.shares(Area("Niño 3.4", lon=[-170, -120], lat=[-5, 5]))
    rows = [math.sin(math.radians(5)) - math.sin(math.radians(4)), 2 * math.sin(math.radians(4))]
    rows = np.array([rows[0], rows[1], rows[0]]) / (2 * math.sin(math.radians(5)))
    # 190 to 240 E: two of 184 to 192, then whole cells up to 240.
    columns = np.zeros(15)
    columns[3], columns[4:10] = 2 / 50, 8 / 50
    np.testing.assert_allclose(shares, np.outer(rows, columns), atol=1e-12)
    east = Grid(Area("East", lon=[-150, -80], lat=[-10, 10]), 10)
    assert east.shares(Area("Niño 3.4", lon=[-170, -120], lat=[-5, 5])).sum() == pytest.approx(0.6)
