"""Forecasts of a split compared with every baseline: scores, intervals and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
import xarray
from numpy.typing import NDArray
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
    statistics = _ForecastStatistics(dataset, best_possible)
    rows, columns = dataset.store.grid.shape
    size = max(1, min(batch_size, _MAX_VALUES // (dataset.lead * rows * columns)))
    watch = Stopwatch(torch.device(device))
    done = 0
    for batch in DataLoader(dataset, size):
        with watch.lap():
            output = forecast(batch["past"].to(device), batch["month"].to(device)).float().cpu()
        statistics.add(dataset.last_months[done : done + len(output)], output.numpy())
        done += len(output)
        progress(done, len(dataset))
    means = statistics.means()
    table, verdicts = compare_with_baselines(means)
    return ForecastEvaluation(
        dataset=dataset,
        means=means,
        table=table,
        verdicts=verdicts,
        errors=statistics.errors(),
        masked=1 - float(means["measured"].mean()),
        model_seconds=watch.seconds,
    )


class _ForecastStatistics:
    """Means and errors of the forecasts by all systems, accumulated over batches.

    Args:
        dataset: samples to forecast.
        best_possible: as for :func:`evaluate`.
    """

    def __init__(
        self, dataset: ERA5SSTMonthlyDataset, best_possible: xarray.DataArray | None
    ) -> None:
        store = dataset.store
        ahead = np.arange(dataset.lead) + dataset.offset + 1
        cells = store.fields[["trend", "middle"]].astype(float)
        self._store = store
        self._leads = xarray.DataArray(ahead, {"lead": ahead}, ("lead",), "lead")
        self._anomalies = store.anomalies.astype(float)
        self._cells = cells.assign(weight=store.weights, box=_index_weights(store)).compute()
        training = self._anomalies.sel(time=store.years.months("train"))
        self._baselines = Baselines(training, self._cells, self._leads)
        self._best_possible = best_possible
        self._parts: list[xarray.Dataset] = []
        self._squares = xarray.DataArray(0.0)
        self._counts = xarray.DataArray(0.0)

    def add(self, last_months: Sequence[int], output: NDArray[np.float32]) -> None:
        """Add the forecasts of a batch.

        Args:
            last_months: number of the last month that each sample reads, (B,).
            output: forecasts of the model in standard deviations, (B, lead, H, W).
        """
        now = xarray.DataArray(last_months, dims="sample")
        forecasts = self._forecasts(now, output)
        months = now + self._leads
        observed = self._measured(months)
        trend = trend_line(self._cells, months)
        self._parts.append(_means(forecasts, observed, trend, self._cells))
        self._squares = self._squares + ((forecasts - observed) ** 2).sum("sample")
        self._counts = self._counts + observed.notnull().sum("sample")

    def means(self) -> xarray.Dataset:
        """Return the means of all samples (:attr:`ForecastEvaluation.means`)."""
        return xarray.concat(self._parts, "sample")

    def errors(self) -> xarray.DataArray:
        """Return the RMSE of each cell (:attr:`ForecastEvaluation.errors`)."""
        return (self._squares / self._counts) ** 0.5

    def _forecasts(self, now: xarray.DataArray, output: NDArray[np.float32]) -> xarray.DataArray:
        """Return the forecasts of all systems in kelvin, by system, sample, lead and cell."""
        deviation = self._store.of_month("deviation", now + self._leads).astype(float).compute()
        model = (deviation * output).expand_dims(system=[MODEL])
        systems = [model, self._baselines.forecast(self._measured(now), now)]
        if self._best_possible is not None:
            best = self._best_possible.sel(time=now).drop_vars("time")
            systems.append(best.expand_dims(system=[BEST_POSSIBLE]))
        return xarray.concat(systems, "system")

    def _measured(self, months: xarray.DataArray) -> xarray.DataArray:
        """Return the observed anomalies of months in kelvin, NaN but for open sea."""
        return self._anomalies.sel(time=months).drop_vars("time").compute()


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
