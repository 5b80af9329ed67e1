"""Small seas for the tests of this package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import xarray

from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.evaluate import ForecastEvaluation, evaluate
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.grid import Area, Grid
from vrtspike.sst.preparation import prepare
from vrtspike.sst.settings import Years
from vrtspike.sst.store import PreparedStore

PACIFIC = Area("Pacific", lon=[120, -80], lat=[-40, 40])
"""Across the date line; the globe's continent and cape lie in it."""
YEARS = Years(TRAIN=(1980, 1984), VAL=(1985, 1986), TEST=(1987, 1988))
GLOBE = Globe(years=9, step=8.0, south=-56.0)
ICY = Area("Pacific", lon=[120, -80], lat=[-40, 64])
SAMPLES = 19
"""Samples in two years: three months are read, one is skipped, two are forecast."""


def cell_means(field, latitudes, longitudes, grid: Grid, name: str = "a.nc") -> np.ndarray:
    """Means over cells of a field of one or of several months."""
    months = np.reshape(field, (-1, *np.shape(field)[-2:]))
    axes = {"time": range(len(months)), "latitude": latitudes, "longitude": longitudes}
    result = grid.means(xarray.DataArray(months, axes, [*axes]), name)
    return result.values.reshape(*np.shape(field)[:-2], *grid.shape)


def changed(path: Path, change) -> Path:
    """A file whose data set was changed by a function."""
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        dataset = opened.load()
    path.unlink()
    change(dataset).to_netcdf(path, engine="h5netcdf")
    return path


def series_store(
    kelvin: np.ndarray, folder: Path, years: Years, step: float = 4.0, **fields: np.ndarray
):
    """A store of a strip along the equator, whose cells have these temperatures (months, cells)."""
    cells = kelvin.shape[1]
    times = (np.arange(len(kelvin)) + 12 * (years.TRAIN[0] - 1970)).astype("datetime64[M]")
    # Two rows of equal area, with the same values.
    columns = {"sst": (kelvin, "K"), **{name: (v, "(0 - 1)") for name, v in fields.items()}}
    dims = ("valid_time", "latitude", "longitude")
    xarray.Dataset(
        {
            name: (dims, np.repeat(values[:, None], 2, axis=1), {"units": units})
            for name, (values, units) in columns.items()
        },
        {
            "valid_time": times.astype("datetime64[ns]"),
            "latitude": [step / 2, -step / 2],
            "longitude": step * np.arange(cells) + step / 2,
        },
    ).to_netcdf(folder / "sst.nc", engine="h5netcdf")
    strip = Area("Strip", lon=[0, step * cells], lat=[-step, step])
    return prepare(folder, strip, step, folder / "out" / "p.json", years)


@pytest.fixture(scope="session")
def download(tmp_path_factory):
    """A folder with one small file of nine years; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("era5")
    write_example(folder, GLOBE)
    return folder


@pytest.fixture(scope="session")
def store(download, tmp_path_factory) -> PreparedStore:
    """The Pacific of it at 8 degrees: 10 rows, 20 columns."""
    return prepare(download, PACIFIC, 8, tmp_path_factory.mktemp("prepared") / "p.json", YEARS)


@pytest.fixture(scope="session")
def icy(tmp_path_factory) -> PreparedStore:
    """A region whose north freezes in winter, and which holds Niño 3.4."""
    folder = tmp_path_factory.mktemp("icy")
    write_example(folder, Globe(years=9, step=8.0, south=-64.0))
    return prepare(folder, ICY, 8, folder / "out" / "p.json", YEARS)


@pytest.fixture(scope="session")
def data(icy) -> ERA5SSTMonthlyDataset:
    """The test years of this region."""
    return ERA5SSTMonthlyDataset(3, offset=1, lead=2, store=icy.path, split="test")


def half(past: torch.Tensor, month: torch.Tensor) -> torch.Tensor:
    """Half of the last anomaly, a quarter for the second lead; warmer late in the year."""
    last = past[:, -1:]
    return torch.cat([last / 2, last / 4], dim=1) + month[:, None, None, None] / 10


@pytest.fixture(scope="session")
def evaluation(data) -> ForecastEvaluation:
    """An evaluation of :func:`half`, in several batches."""
    return evaluate(half, data, batch_size=5)
