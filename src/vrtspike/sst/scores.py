"""Scores of forecasts over the open sea: RMSE, anomaly correlation, correlation of Niño 3.4.

Every score comes from means over the open sea, weighted by area, of single fields: of the squared
error, and of forecast and observed anomalies, their products and squares (:func:`field_means`).

- RMSE: root of the mean over forecasts of the mean squared error, kelvin.
- ACC, the anomaly correlation, over all forecasts together: *uncentred*, forecast times observed by
  the root of the product of their squares, or *centred*, after each field's mean was taken off
  (Wilks, 2011). Anomalies are about the climatology of the training years, or about its linear
  trend, which otherwise correlates by itself.
"""

from __future__ import annotations

import numpy as np
import xarray

from vrtspike.sst.baselines import BASELINES
from vrtspike.sst.grid import CELLS

MODEL = "model"
FORECAST_SYSTEMS = {MODEL: MODEL} | BASELINES
"""Compared forecasts: names of columns, and labels."""
BEST_POSSIBLE = "best_possible"
"""The best possible forecast on average, known for generated data only."""
LABELS = FORECAST_SYSTEMS | {BEST_POSSIBLE: "best possible forecast"}
"""Labels of all forecasts that an evaluation may have."""
_ABOUT = {"climatology": "", "trend": "_detrended"}
"""References of an anomaly, and the suffixes of the scores' names."""
_MIN_VARIANCE_K2 = 1e-12
"""Kelvin squared; below it there is no anomaly to correlate."""


def field_means(
    forecast: xarray.DataArray, observed: xarray.DataArray, weights: xarray.DataArray
) -> xarray.Dataset:
    """Compute the means over cells from which the scores are computed.

    Args:
        forecast: anomalies in kelvin by row, column and any other dimensions.
        observed: observed anomalies of the same form.
        weights: weights in any unit; 0 where a cell does not count, whatever forecast and observed
            are there.
    """
    forecast = forecast.where(weights > 0, 0)
    observed = observed.where(weights > 0, 0)
    products = {
        "error2": (forecast - observed) ** 2,
        "forecast": forecast,
        "observed": observed,
        "product": forecast * observed,
        "forecast2": forecast**2,
        "observed2": observed**2,
    }
    return xarray.Dataset(products).weighted(weights).mean(CELLS)


def skill(means: xarray.Dataset) -> xarray.Dataset:
    """Compute every score over the dimension ``sample``; NaN without an anomaly to correlate.

    Args:
        means: means from :func:`field_means` by ``system`` and ``about`` (``climatology``,
            ``trend``), and the index ``nino34`` and ``nino34_observed`` in kelvin.
    """
    error = means["error2"].sel(about="climatology", drop=True).mean("sample") ** 0.5
    scores = {"rmse_k": error, "difference_k": error.sel(system=MODEL, drop=True) - error}
    products = means[["product", "forecast2", "observed2"]]
    scores |= _correlations("acc", products)
    of_means = {
        "product": means["forecast"] * means["observed"],
        "forecast2": means["forecast"] ** 2,
        "observed2": means["observed"] ** 2,
    }
    scores |= _correlations("acc_centred", products - xarray.Dataset(of_means))
    scores["nino34"] = _index_correlation(means["nino34"], means["nino34_observed"])
    return xarray.Dataset(scores)


def _correlations(name: str, products: xarray.Dataset) -> dict[str, xarray.DataArray]:
    """Correlate over all samples together, about the climatology and about the trend.

    Args:
        name: name of the score.
        products: ``product``, ``forecast2`` and ``observed2`` by sample.
    """
    means = products.mean("sample")
    forecast2 = means["forecast2"].where(means["forecast2"] > _MIN_VARIANCE_K2)
    observed2 = means["observed2"].where(means["observed2"] > _MIN_VARIANCE_K2)
    correlation = means["product"] / np.sqrt(forecast2 * observed2)
    return {
        name + suffix: correlation.sel(about=about, drop=True) for about, suffix in _ABOUT.items()
    }


def _index_correlation(index: xarray.DataArray, observed: xarray.DataArray) -> xarray.DataArray:
    """Correlate an index over the samples; NaN where forecast or observed does not vary."""
    varies = index.var("sample") > _MIN_VARIANCE_K2
    observed_varies = observed.var("sample") > _MIN_VARIANCE_K2
    return xarray.corr(index, observed, dim="sample").where(varies & observed_varies)
