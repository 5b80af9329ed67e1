"""Least squares by calendar month, pooled with neighbouring months.

Damping depends on the season: anomalies of the equatorial Pacific decay fastest in boreal spring
(the spring barrier). A coefficient of one calendar month alone rests on one pair of months a year,
too few for many coefficients; that of the whole year misses the season. A calendar month is
therefore pooled with its neighbours on both sides, as many as cross-validation over blocks of the
training years advises (Hastie, Tibshirani and Friedman, 2009, section 7.10): without a season in
the data, all twelve months.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from numpy.typing import NDArray

from vrtspike.sst.months import MONTHS
from vrtspike.system.rounding import ceil_div

FOLDS = 5
"""Number of blocks of consecutive years, each of which is left out once."""
HALF_WIDTHS = (6, 5, 4, 3, 2, 1, 0)
"""Months on each side that a calendar month may be pooled with; 6: the whole year. The widest is
first, so that it is taken where all are equally good."""

_Array = NDArray[np.float64]
_Function = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class MonthlyFit:
    """Coefficients by calendar month of the start.

    Attributes:
        coefficients: (12, ...) from January.
        half_width: months on each side that were pooled.
        error: squared error in cross-validation, less that of forecasting 0.
    """

    coefficients: _Array
    half_width: int
    error: float


def fold_sums(products: xarray.DataArray) -> _Array:
    """Sum monthly values over the years of each fold.

    Args:
        products: (time, ...) by numbers of consecutive months; NaN counts as 0; lazy or not.

    Returns:
        (fold, 12, ...) sums by calendar month, from January.
    """
    missing = int(products["time"][0]) % MONTHS
    whole = products.drop_vars("time").pad(time=(missing, 0))
    years = whole.coarsen(time=MONTHS, boundary="pad").construct(time=("year", "month"))
    size = ceil_div(years.sizes["year"], FOLDS)
    sums = years.coarsen(year=size, boundary="pad").sum()
    return np.asarray(sums.transpose("year", "month", ...).values)


def fit_by_month(
    squares: _Array, products: _Array, multiply: _Function, solve: _Function
) -> MonthlyFit:
    """Solve normal equations by calendar month, pooled as cross-validation advises.

    Args:
        squares: (fold, 12, ...) left side of the normal equations, :func:`fold_sums`.
        products: (fold, 12, ...) right side.
        multiply: function that multiplies a left side and coefficients, by calendar month.
        solve: function from a left and a right side to coefficients, by calendar month.
    """
    all_squares = squares.sum(axis=0)
    all_products = products.sum(axis=0)
    errors = dict.fromkeys(HALF_WIDTHS, 0.0)
    for fold_squares, fold_products in zip(squares, products, strict=True):
        for half_width in HALF_WIDTHS:
            left = pooled(all_squares - fold_squares, half_width)
            right = pooled(all_products - fold_products, half_width)
            coefficients = solve(left, right)
            residual = multiply(fold_squares, coefficients) - 2 * fold_products
            errors[half_width] += float((coefficients * residual).sum())
    best = min(errors, key=errors.__getitem__)
    coefficients = solve(pooled(all_squares, best), pooled(all_products, best))
    return MonthlyFit(coefficients, best, errors[best])


def pooled(sums: _Array, half_width: int) -> _Array:
    """Sum (12, ...) over each calendar month and its neighbours up to ``half_width`` away."""
    # Six months before and six months after are the same month, which counts once.
    shifts = range(-half_width, min(half_width, MONTHS // 2 - 1) + 1)
    return np.sum([np.roll(sums, shift, axis=0) for shift in shifts], axis=0)
