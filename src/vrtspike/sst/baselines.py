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

from collections.abc import Callable

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
"""Names of columns, and labels."""
COMPONENTS = 20
"""Largest number of principal components of the linear inverse model; a twentieth of the months
where that is fewer."""
_MIN_VARIANCE = 1e-12
"""Share of the largest variance; a component with less is left out."""


def fit_baselines(
    training: xarray.DataArray, cells: xarray.Dataset, leads: xarray.DataArray
) -> Callable[[xarray.DataArray, xarray.DataArray | int], xarray.DataArray]:
    """Fit all baselines.

    Args:
        training: (time, row, column) anomalies in kelvin of the consecutive months of the fit, by
            their numbers; NaN where there is no value. Chunks are read one after the other.
        cells: by row and column: ``weight`` (share of the area), ``trend`` (kelvin a year) and
            ``middle`` (number of the month at which the line of the trend is 0).
        leads: (lead,) the months ahead that are forecast, by themselves.

    Returns:
        a function of the anomalies of the last month, (..., row, column), and its number, that
        forecasts (system, lead, ..., row, column) kelvin; ``system`` are those of BASELINES. Where
        an anomaly is NaN, 0 takes its place: the climatology, or its trend.
    """
    about_trend = training - trend_line(cells, training["time"])
    damping = _damping(training, leads)
    damping_about_trend = _damping(about_trend, leads)
    inverse = linear_inverse(about_trend, cells["weight"], leads)

    def forecast(last: xarray.DataArray, now: xarray.DataArray | int) -> xarray.DataArray:
        anomaly = last.fillna(0)
        anomaly_about_trend = (last - trend_line(cells, now)).fillna(0)
        trend = trend_line(cells, now + leads)
        forecasts = {
            "persistence": anomaly,
            "damped": damping * anomaly,
            "climatology": 0 * anomaly,
            "trend": trend,
            "damped_trend": trend + damping_about_trend * anomaly_about_trend,
            "lim": trend + inverse(anomaly_about_trend),
        }
        systems = xarray.Dataset(forecasts).to_dataarray("system")
        return systems.transpose("system", "lead", ..., *CELLS)

    return forecast


def _damping(anomalies: xarray.DataArray, leads: xarray.DataArray) -> xarray.DataArray:
    """(lead, row, column) regression of anomalies on those ``lead`` months before."""
    slopes = [lagged_regression(anomalies, months) for months in leads.values]
    return xarray.concat(slopes, leads)


def trend_line(cells: xarray.Dataset, month: xarray.DataArray | int) -> xarray.DataArray:
    """Kelvin that the trend adds to the climatology, by cell; ``month`` is a month's number."""
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


def linear_inverse(
    training: xarray.DataArray, weights: xarray.DataArray, leads: xarray.DataArray
) -> Callable[[xarray.DataArray], xarray.DataArray]:
    """Fit principal components, and the matrix that leads from one month's to the next.

    Args:
        training: (time, row, column) anomalies of consecutive months; NaN counts as 0.
        weights: (row, column) shares of the area.
        leads: (lead,) the months ahead, by themselves.

    Returns:
        a function from anomalies (..., row, column) to those some months later,
        (lead, ..., row, column); 0 where the weight is 0.
    """
    scale = weights**0.5
    scaled = (training.fillna(0) * scale).transpose("time", *CELLS).data
    scaled = scaled.reshape(len(scaled), -1)
    # The decomposition of (months, months) needs no second copy of (months, cells).
    squares, vectors = np.linalg.eigh(np.asarray(scaled @ scaled.T))
    rank = int((squares > _MIN_VARIANCE * squares[-1]).sum())
    count = max(1, min(COMPONENTS, len(squares) // 20, rank))
    vectors = vectors[:, -count:]
    lengths = np.sqrt(np.maximum(squares[-count:], _MIN_VARIANCE))
    fields = np.asarray((vectors / lengths).T @ scaled).reshape(count, *weights.shape)
    patterns = xarray.DataArray(fields, dims=("component", *CELLS))
    components = vectors * lengths
    has_values = training.notnull().any(CELLS).values
    pairs = has_values[:-1] & has_values[1:]
    step = np.linalg.lstsq(components[:-1][pairs], components[1:][pairs])[0]
    powers = np.stack([np.linalg.matrix_power(step, n) for n in leads.values])
    steps = xarray.DataArray(powers, leads.coords, ("lead", "component", "later"))

    def forecast(anomaly: xarray.DataArray) -> xarray.DataArray:
        now = xarray.dot(anomaly * scale, patterns, dim=CELLS)
        later = xarray.dot(now, steps, dim="component").rename(later="component")
        return xarray.dot(later, patterns, dim="component") / scale.where(scale > 0, 1)

    return forecast
