"""Forecasts that a model has to beat, fitted to the training years.

============================ =====================================================================
``persistence``              the anomaly of the last month stays
``damped``                   the regression of each cell's anomaly on that so many months before;
                             of red noise it is the best forecast (an autoregression of order 1)
``climatology``              no anomaly
``trend``                    climatology and each cell's linear trend, extrapolated
``damped_trend``             ``damped``, of the anomalies about the trend
``lim``                      a linear inverse model on principal components of the anomalies about
                             the trend (Penland and Sardeshmukh, 1995)
============================ =====================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray

from vrtspike.sst.grid import CELLS
from vrtspike.sst.settings import MONTHS

BASELINES = {
    "persistence": "persistence",
    "damped": "damped persistence",
    "climatology": "climatology",
    "trend": "climatology with trend",
    "damped_trend": "damped persistence about the trend",
    "lim": "linear inverse model",
}
"""Names of columns, and those that people read."""
COMPONENTS = 20
"""Most principal components of the linear inverse model; of fewer months a twentieth of them."""
_NOTHING = 1e-12
"""Share of the largest variance below which a component is none."""
_TINY = float(np.finfo(np.float64).tiny)


class Baselines:
    """All baselines, fitted to anomalies of the training years.

    Args:
        anomalies: (time, row, column) kelvin of consecutive months, by their numbers; NaN where
            they are not known. Chunks along the time are read one after the other.
        cells: by row and column: ``weight`` (share of the area), ``trend`` (kelvin a year) and
            ``middle`` (number of the month at which the line of the trend is 0).
        leads: the months ahead that are forecast.
    """

    def __init__(
        self, anomalies: xarray.DataArray, cells: xarray.Dataset, leads: Sequence[int]
    ) -> None:
        self._cells = cells
        self._leads = xarray.DataArray(list(leads), {"lead": list(leads)}, ("lead",), "lead")
        about = anomalies - trend_line(cells, anomalies["time"])
        self._damping, self._damping_about = (
            xarray.concat([lagged_regression(each, n) for n in leads], self._leads)
            for each in (anomalies, about)
        )
        self._inverse = LinearInverseModel(about, cells["weight"])

    def __call__(self, last: xarray.DataArray, now: xarray.DataArray | int) -> xarray.DataArray:
        """(system, lead, ..., row, column) anomalies in kelvin; ``system`` are those of BASELINES.

        Args:
            last: (..., row, column) anomalies of the last month, NaN where they are not known:
                there the climatology, or its trend, is the best guess.
            now: the number of that month.
        """
        later = trend_line(self._cells, now + self._leads)
        known = last.fillna(0)
        about = (last - trend_line(self._cells, now)).fillna(0)
        inverse = xarray.concat([self._inverse(about, int(n)) for n in self._leads], self._leads)
        said = {
            "persistence": known,
            "damped": self._damping * known,
            "climatology": 0 * known,
            "trend": later,
            "damped_trend": later + self._damping_about * about,
            "lim": later + inverse,
        }
        return xarray.Dataset(said).to_dataarray("system").transpose("system", "lead", ..., *CELLS)


def trend_line(cells: xarray.Dataset, month: xarray.DataArray | int) -> xarray.DataArray:
    """Kelvin that the trend adds to the climatology in a month (of its number), by cell."""
    return (month - cells["middle"]) / MONTHS * cells["trend"]


def lagged_regression(anomalies: xarray.DataArray, months: int) -> xarray.DataArray:
    """(row, column) slope of the least squares line through 0 of anomalies on those months before.

    Args:
        anomalies: (time, row, column) of consecutive months; pairs with a NaN do not count.
        months: between the two.
    """
    before = anomalies.shift(time=months)
    squares = (before.where(anomalies.notnull()) ** 2).sum("time").compute()
    return (before * anomalies).sum("time").compute() / squares.where(squares > 0, 1)


class LinearInverseModel:
    """Principal components of which each month's follow from those before by one matrix.

    Args:
        anomalies: (time, row, column) of consecutive months; what is not known counts as 0.
        weights: (row, column) shares of the area.
    """

    def __init__(self, anomalies: xarray.DataArray, weights: xarray.DataArray) -> None:
        self._scale = weights**0.5
        scaled = (anomalies.fillna(0) * self._scale).transpose("time", *CELLS).data
        scaled = scaled.reshape(len(scaled), -1)
        # The decomposition of months by months needs no second copy of months by cells.
        squares, vectors = np.linalg.eigh(np.asarray(scaled @ scaled.T))
        rank = int((squares > _NOTHING * squares[-1]).sum())
        count = max(1, min(COMPONENTS, len(squares) // 20, rank))
        vectors, lengths = vectors[:, -count:], np.sqrt(np.maximum(squares[-count:], _TINY))
        patterns = np.asarray((vectors / lengths).T @ scaled).reshape(count, *weights.shape)
        self._patterns = xarray.DataArray(patterns, dims=("component", *CELLS))
        components, known = vectors * lengths, anomalies.notnull().any(CELLS).values
        pairs = known[:-1] & known[1:]
        self._step = np.linalg.lstsq(components[:-1][pairs], components[1:][pairs])[0]

    def __call__(self, anomaly: xarray.DataArray, months: int) -> xarray.DataArray:
        """(..., row, column) anomalies some months after others; 0 where the weight is."""
        steps = np.linalg.matrix_power(self._step, months)
        now = xarray.dot(anomaly * self._scale, self._patterns, dim=CELLS)
        later = xarray.dot(now, xarray.DataArray(steps, dims=("component", "later")))
        found = xarray.dot(later.rename(later="component"), self._patterns, dim="component")
        return found / self._scale.where(self._scale > 0, 1)
