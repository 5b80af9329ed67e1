"""Series of months whose best forecast is known, and the errors of all baselines on them."""

from __future__ import annotations

import numpy as np
import xarray

from vrtspike.sst.baselines import BASELINES, Baselines


def series(kelvin: np.ndarray, first: int = 0) -> xarray.DataArray:
    """Consecutive months of cells in a column."""
    times = {"time": first + np.arange(len(kelvin))}
    return xarray.DataArray(kelvin[..., None], times, ("time", "row", "column"))


def lines(months: int, cells: int = 3, slope: float = 0.0) -> xarray.Dataset:
    """Cells of equal area with a known trend (kelvin a year) about the middle of the months."""
    values = {"weight": 1 / cells, "trend": slope, "middle": (months - 1) / 2}
    return xarray.Dataset(
        {name: (("row", "column"), np.full((cells, 1), v)) for name, v in values.items()}
    )


def ahead(months: int) -> xarray.DataArray:
    """A single lead, as forecasts take it."""
    return xarray.DataArray([months], {"lead": [months]}, ("lead",), "lead")


def errors(
    training: xarray.DataArray, cells: xarray.Dataset, later: xarray.DataArray, months: int
) -> dict[str, float]:
    """Mean squared error of every baseline on a later series."""
    now = later[:-months]
    baselines = Baselines(training, cells, ahead(months))
    forecasts = baselines.forecast(now, now["time"]).isel(lead=0)
    result = ((forecasts - later[months:].values) ** 2).mean(("time", "row", "column"))
    return {name: float(result.sel(system=name)) for name in BASELINES}
