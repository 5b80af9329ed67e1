"""A linear inverse model whose coefficients depend on the calendar month.

The state consists of principal components of the anomalies. Each calendar month has a matrix that
takes the state to that of the next month, by regression. The matrix over several months is the
product of theirs. With one matrix for all months this is the model of Penland and Sardeshmukh
(1995), with one for each month the cyclostationary model (Shin et al., 2021; Lien et al., 2025).
"""

from __future__ import annotations

import numpy as np
import xarray
from numpy.typing import NDArray

from vrtspike.sst.grid import CELLS
from vrtspike.sst.months import MONTHS
from vrtspike.sst.pooling import MonthlyFit, fit_by_month, fold_sums

COMPONENTS = 20
"""Largest number of principal components; a twentieth of the months where that is fewer."""
_MIN_VARIANCE = 1e-12
"""Share of the largest variance; a component with less is left out."""
_MIN_EIGENVALUE = 1e-9
"""Share of the largest eigenvalue; smaller ones count as 0 in a solution of normal equations."""

_Array = NDArray[np.float64]


class LinearInverseModel:
    """Principal components of a training, and matrices that lead from one month's to the next.

    The number of components and the months that are pooled are those of the lowest error of
    one-month forecasts in cross-validation (:mod:`vrtspike.sst.pooling`).

    Args:
        training: (time, row, column) anomalies of consecutive months; NaN counts as 0.
        weights: (row, column) shares of the area.
        leads: (lead,) months ahead, which are also the coordinates.
    """

    def __init__(
        self, training: xarray.DataArray, weights: xarray.DataArray, leads: xarray.DataArray
    ) -> None:
        self._scale = weights**0.5
        scaled = (training.fillna(0) * self._scale).transpose("time", *CELLS)
        components, fields = _components(scaled)
        fit = _steps(components.where(training.notnull().any(CELLS)))
        self._patterns = fields.isel(component=slice(fit.coefficients.shape[-1]))
        products = np.stack([_product(fit.coefficients, int(lead)) for lead in leads.values])
        dims = ("lead", "month", "component", "later")
        self._matrices = xarray.DataArray(products, leads.coords, dims)

    def forecast(self, anomaly: xarray.DataArray, now: xarray.DataArray | int) -> xarray.DataArray:
        """Forecast anomalies (lead, ..., row, column); 0 where the weight is 0.

        Args:
            anomaly: (..., row, column) anomalies of a month.
            now: number of the month.
        """
        state = xarray.dot(anomaly * self._scale, self._patterns, dim=CELLS)
        step = self._matrices.isel(month=now % MONTHS)
        later = xarray.dot(state, step, dim="component").rename(later="component")
        fields = xarray.dot(later, self._patterns, dim="component")
        return fields / self._scale.where(self._scale > 0, 1)


def _components(scaled: xarray.DataArray) -> tuple[xarray.DataArray, xarray.DataArray]:
    """Return the principal components, the largest first.

    Args:
        scaled: (time, row, column) anomalies by the root of the area.

    Returns:
        (time, component) values, and (component, row, column) patterns of length 1.
    """
    values = scaled.data.reshape(len(scaled), -1)
    # The decomposition of (months, months) needs no second copy of (months, cells).
    squares, vectors = np.linalg.eigh(np.asarray(values @ values.T))
    rank = int((squares > _MIN_VARIANCE * squares[-1]).sum())
    count = max(1, min(COMPONENTS, len(squares) // 20, rank))
    vectors = vectors[:, : -count - 1 : -1]
    lengths = np.sqrt(np.maximum(squares[: -count - 1 : -1], _MIN_VARIANCE))
    fields = np.asarray((vectors / lengths).T @ values).reshape(count, *scaled.shape[1:])
    patterns = xarray.DataArray(fields, dims=("component", *CELLS))
    times = {"time": scaled["time"].values}
    return xarray.DataArray(vectors * lengths, times, ("time", "component")), patterns


def _steps(components: xarray.DataArray) -> MonthlyFit:
    """Return matrices (12, component, component) from the state of a month to that of the next."""
    now = components.rename(component="row")
    later = components.shift(time=-1).rename(component="column")
    # A month forms a pair only with the next month.
    has_next = later.notnull().all("column")
    squares = fold_sums(now.where(has_next) * now.rename(row="column"))
    products = fold_sums(now * later)
    fits = [
        fit_by_month(squares[..., :n, :n], products[..., :n, :n], np.matmul, _solve)
        for n in range(1, components.sizes["component"] + 1)
    ]
    return min(fits, key=lambda fit: fit.error)


def _solve(squares: _Array, products: _Array) -> _Array:
    """Return the solutions of normal equations, of least norm where there are too few pairs."""
    inverse = np.linalg.pinv(squares, rcond=_MIN_EIGENVALUE, hermitian=True)
    return np.asarray(inverse @ products)


def _product(steps: _Array, months: int) -> _Array:
    """Return matrices (12, component, component) over several months, by the month of the start."""
    result = steps
    for month in range(1, months):
        result = result @ np.roll(steps, -month, axis=0)
    return result
