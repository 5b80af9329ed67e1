"""Forecasts that a model has to beat, fitted to the training years.

============================ =====================================================================
``persistence``              the anomaly of the last month persists
``damped``                   the regression of each cell's anomaly on that as many months before, by
                             calendar month; the best forecast of red noise (an autoregression of
                             order 1)
``climatology``              no anomaly
``trend``                    climatology and each cell's linear trend, extrapolated
``damped_trend``             ``damped``, of the anomalies about the trend
``lim``                      a linear inverse model on principal components of the anomalies about
                             the trend (:mod:`vrtspike.sst.linear_inverse`)
============================ =====================================================================

Coefficients are those of the calendar month of the start, pooled with its neighbours as
:mod:`vrtspike.sst.pooling` describes.
"""

from __future__ import annotations

import numpy as np
import xarray
from numpy.typing import NDArray

from vrtspike.sst.grid import CELLS
from vrtspike.sst.linear_inverse import LinearInverseModel
from vrtspike.sst.months import MONTHS
from vrtspike.sst.pooling import MonthlyFit, fit_by_month, fold_sums

BASELINES = {
    "persistence": "persistence",
    "damped": "damped persistence",
    "climatology": "climatology",
    "trend": "climatology with trend",
    "damped_trend": "damped persistence about the trend",
    "lim": "linear inverse model",
}
"""Names of columns, and labels."""


class Baselines:
    """All baselines, fitted to the months of a training.

    Args:
        training: (time, row, column) anomalies in kelvin of the consecutive months of the fit, by
            their numbers; NaN where there is no value. Chunks are read one after the other.
        cells: cells by row and column: ``weight`` (share of the area), ``trend`` (kelvin a year)
            and ``middle`` (number of the month at which the line of the trend is 0).
        leads: (lead,) months ahead that are forecast, which are also the coordinates.
    """

    def __init__(
        self, training: xarray.DataArray, cells: xarray.Dataset, leads: xarray.DataArray
    ) -> None:
        self._cells = cells
        self._leads = leads
        about_trend = training - trend_line(cells, training["time"])
        self._damping = _damping(training, cells["weight"], leads)
        self._damping_about_trend = _damping(about_trend, cells["weight"], leads)
        self._linear_inverse = LinearInverseModel(about_trend, cells["weight"], leads)

    def forecast(self, last: xarray.DataArray, now: xarray.DataArray | int) -> xarray.DataArray:
        """Forecast (system, lead, ..., row, column) kelvin; ``system`` are those of BASELINES.

        Args:
            last: (..., row, column) anomalies of the last month; NaN are replaced by 0: the
                climatology, or its trend.
            now: number of this month.
        """
        anomaly = last.fillna(0)
        anomaly_about_trend = (last - trend_line(self._cells, now)).fillna(0)
        trend = trend_line(self._cells, now + self._leads)
        month = now % MONTHS
        damping_about_trend = self._damping_about_trend.isel(month=month)
        forecasts = {
            "persistence": anomaly,
            "damped": self._damping.isel(month=month) * anomaly,
            "climatology": 0 * anomaly,
            "trend": trend,
            "damped_trend": trend + damping_about_trend * anomaly_about_trend,
            "lim": trend + self._linear_inverse.forecast(anomaly_about_trend, now),
        }
        systems = xarray.Dataset(forecasts).to_dataarray("system")
        return systems.transpose("system", "lead", ..., *CELLS)


def _damping(
    anomalies: xarray.DataArray, weights: xarray.DataArray, leads: xarray.DataArray
) -> xarray.DataArray:
    """Regress anomalies on those ``lead`` months before: (lead, month, row, column)."""
    fits = [lagged_regression(anomalies, weights, months) for months in leads.values]
    slopes = np.stack([fit.coefficients for fit in fits])
    return xarray.DataArray(slopes, leads.coords, ("lead", "month", *CELLS))


def trend_line(cells: xarray.Dataset, month: xarray.DataArray | int) -> xarray.DataArray:
    """Return the kelvin that the trend adds to the climatology of a month, by cell."""
    return (month - cells["middle"]) / MONTHS * cells["trend"]


def lagged_regression(
    anomalies: xarray.DataArray, weights: xarray.DataArray, months: int
) -> MonthlyFit:
    """Return slopes (12, row, column) of the least squares lines through 0, by calendar month.

    Args:
        anomalies: (time, row, column) of consecutive months; pairs with a NaN do not count.
        weights: (row, column) shares of the area, by which errors count in the choice of the months
            that are pooled, one for all cells.
        months: number of months between an anomaly and that which is regressed on it.
    """
    later = anomalies.shift(time=-months)
    pair = xarray.Dataset(
        {"squares": anomalies.where(later.notnull()) ** 2, "products": anomalies * later}
    )
    weighted = (pair * weights).transpose("time", *CELLS)
    squares = fold_sums(weighted["squares"])
    return fit_by_month(squares, fold_sums(weighted["products"]), np.multiply, _quotient)


def _quotient(squares: NDArray[np.float64], products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the slopes; 0 where there is no pair, and on land."""
    return products / np.where(squares > 0, squares, 1)
