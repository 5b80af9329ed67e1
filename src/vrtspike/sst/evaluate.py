"""Forecasts of a split compared with every baseline: scores, intervals and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
import xarray
from torch import nn
from torch.utils.data import DataLoader

from vrtspike.monitoring.timing import Stopwatch
from vrtspike.sst.baselines import Baselines, trend_line
from vrtspike.sst.comparison import compare_with_baselines
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.generate import Globe
from vrtspike.sst.grid import CELLS, Area
from vrtspike.sst.scores import BEST_POSSIBLE, MODEL, field_means
from vrtspike.sst.store import PreparedStore
from vrtspike.system.progress_bar import ProgressCallback

NINO34 = Area("Niño 3.4", lon=[-170, -120], lat=[-5, 5])
_MAX_VALUES = 2_000_000
"""Number of forecast values that are compared at once; with all baselines they take a gigabyte."""
_WHOLE_BOX = 1 - 1e-6
"""Share of the index's box above which the region holds all of it; 1 less rounding."""


@dataclass(frozen=True)
class ForecastEvaluation:
    """Forecasts of a split by a model and the baselines.

    ``system`` is one of :data:`~vrtspike.sst.scores.FORECAST_SYSTEMS`, or the best possible
    forecast.

    Attributes:
        dataset: samples that were forecast.
        means: input of :func:`~vrtspike.sst.scores.skill`, by ``about``, ``system``, ``sample``,
            and ``lead`` in months ahead; the index is NaN where the region does not hold the whole
            box.
        table: scores with intervals, from :func:`~vrtspike.sst.comparison.compare_with_baselines`.
        verdicts: a row for each lead, from the same function.
        errors: the RMSE of each cell in kelvin by ``system`` and ``lead``, NaN where it is never
            open sea.
        masked: the share of sea and months that are not measured, because there is ice.
        model_seconds: time that the model alone took for all samples.
    """

    dataset: ERA5SSTMonthlyDataset
    means: xarray.Dataset
    table: xarray.Dataset
    verdicts: pd.DataFrame
    errors: xarray.DataArray
    masked: float
    model_seconds: float


@torch.no_grad()
def evaluate(
    forecast: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    dataset: ERA5SSTMonthlyDataset,
    device: torch.device | str = "cpu",
    batch_size: int = 32,
    progress: ProgressCallback = lambda done, total: None,
    best_possible: xarray.DataArray | None = None,
) -> ForecastEvaluation:
    """Forecast every sample of a data set and compare the forecasts with the baselines.

    Args:
        forecast: function from past (B, seq_len, H, W) and month (B,) to (B, lead, H, W), in
            standard deviations: a model, which forecasts as in use, without dropout, or any such
            function.
        dataset: samples to forecast.
        device: device on which the forecast is computed.
        batch_size: samples that are forecast, and compared, at once.
        progress: function called with the number of finished samples and their total.
        best_possible: the best possible forecasts, (time, lead, row, column) anomalies in kelvin by
            the number of the last month that is read and the months ahead
            (:func:`best_possible_forecasts`); None where unknown.
    """
    if isinstance(forecast, nn.Module):
        forecast.eval()
    store = dataset.store
    ahead = np.arange(dataset.lead) + dataset.offset + 1
    leads = xarray.DataArray(ahead, {"lead": ahead}, ("lead",), "lead")
    anomalies = store.anomalies.astype(float)
    cells = store.fields[["trend", "middle"]].astype(float)
    cells = cells.assign(weight=store.weights, box=_index_weights(store)).compute()
    training = anomalies.sel(time=store.years.months("train"))
    baselines = Baselines(training, cells, leads)

    def measured(months: xarray.DataArray) -> xarray.DataArray:
        return anomalies.sel(time=months).drop_vars("time").compute()

    rows, columns = store.grid.shape
    size = max(1, min(batch_size, _MAX_VALUES // (dataset.lead * rows * columns)))
    parts: list[xarray.Dataset] = []
    squares = xarray.DataArray(0.0)
    counts = xarray.DataArray(0.0)
    watch = Stopwatch(torch.device(device))
    done = 0
    for batch in DataLoader(dataset, size):
        with watch.lap():
            output = forecast(batch["past"].to(device), batch["month"].to(device)).float().cpu()
        # The number of the last month that each sample reads.
        now = xarray.DataArray(dataset.last_months[done : done + len(output)], dims="sample")
        deviation = store.of_month("deviation", now + leads).astype(float).compute()
        model = (deviation * output.numpy()).expand_dims(system=[MODEL])
        systems = [model, baselines.forecast(measured(now), now)]
        if best_possible is not None:
            best = best_possible.sel(time=now).drop_vars("time")
            systems.append(best.expand_dims(system=[BEST_POSSIBLE]))
        forecasts = xarray.concat(systems, "system")
        observed = measured(now + leads)
        parts.append(_means(forecasts, observed, trend_line(cells, now + leads), cells))
        squares = squares + ((forecasts - observed) ** 2).sum("sample")
        counts = counts + observed.notnull().sum("sample")
        done += len(output)
        progress(done, len(dataset))
    means = xarray.concat(parts, "sample")
    table, verdicts = compare_with_baselines(means)
    return ForecastEvaluation(
        dataset=dataset,
        means=means,
        table=table,
        verdicts=verdicts,
        errors=(squares / counts) ** 0.5,
        masked=1 - float(means["measured"].mean()),
        model_seconds=watch.seconds,
    )


def _index_weights(store: PreparedStore) -> xarray.DataArray:
    """Return weights (row, column) of the index Niño 3.4; 0 if the region lacks a part."""
    shares = store.grid.shares(NINO34)
    weights = store.fields["sea"] * shares
    # The mean of a part of the box is not the index.
    if shares.sum() <= _WHOLE_BOX:
        return xarray.zeros_like(weights)
    return weights


def _means(
    forecasts: xarray.DataArray,
    observed: xarray.DataArray,
    trend: xarray.DataArray,
    cells: xarray.Dataset,
) -> xarray.Dataset:
    """Return the means from which scores are computed, and the weight of the measured cells.

    Args:
        forecasts: kelvin by system, sample, lead, row and column.
        observed: kelvin by sample, lead, row and column, NaN but for open sea.
        trend: kelvin that the trend adds to the climatology, of the same form.
        cells: ``weight`` (share of the area) and ``box`` (weight in the index) by row and column.
    """
    about = pd.Index(["climatology", "trend"], name="about")
    reference = xarray.concat([xarray.zeros_like(trend), trend], about)
    is_open = observed.notnull()
    weights = cells["weight"] * is_open
    box = cells["box"] * is_open
    means = field_means(forecasts - reference, observed - reference, weights)
    return means.assign(
        nino34=forecasts.weighted(box).mean(CELLS),
        nino34_observed=observed.weighted(box).mean(CELLS),
        measured=weights.sum(CELLS),
    )


def best_possible_forecasts(globe: Globe, dataset: ERA5SSTMonthlyDataset) -> xarray.DataArray:
    """Compute the expectation of each month that a data set forecasts, given all before.

    Args:
        globe: the globe that the data set was made from.
        dataset: samples that are forecast.

    Returns:
        (time, lead, row, column) anomalies in kelvin from the climatology of the data set; 0 on
        land. ``time`` is the number of the last month that is read, ``lead`` the months ahead.
    """
    store = dataset.store
    starts = xarray.DataArray(dataset.last_months, dims="time")
    is_last_month = np.isin(globe.months, dataset.last_months)
    forecasts = []
    for lead in range(dataset.offset + 1, dataset.offset + dataset.lead + 1):
        kelvin = np.where(globe.land(), np.nan, globe.best_forecast(lead))[is_last_month]
        axes = {
            "time": dataset.last_months,
            "latitude": globe.latitudes,
            "longitude": globe.longitudes,
        }
        cells = store.grid.means(xarray.DataArray(kelvin, axes, [*axes]), "generated globe")
        climatology = store.of_month("climatology", starts + lead)
        anomaly = (cells - climatology).fillna(0)
        forecasts.append(anomaly.expand_dims(lead=[lead], axis=1))
    return xarray.concat(forecasts, "lead").transpose("time", "lead", ...)
