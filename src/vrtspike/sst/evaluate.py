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

from vrtspike.monitoring.stopwatch import Stopwatch
from vrtspike.sst.baselines import fit_baselines, trend_line
from vrtspike.sst.comparison import compare
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.grid import CELLS, Area
from vrtspike.sst.scores import BEST_POSSIBLE, MODEL, field_means
from vrtspike.system.progress_bar import ProgressCallback

NINO34 = Area("Niño 3.4", lon=[-170, -120], lat=[-5, 5])
_MAX_VALUES = 2_000_000
"""Number of forecast values that are compared at once; with all baselines they take a gigabyte."""
_WHOLE_BOX = 1 - 1e-6
"""Share of the index's box above which the region holds all of it; 1 less rounding."""


@dataclass(frozen=True)
class Evaluation:
    """Forecasts of a split by a model and the baselines.

    ``system`` is one of :data:`~vrtspike.sst.scores.SYSTEMS`, or the best possible forecast.

    Attributes:
        dataset: samples that were forecast.
        means: input of :func:`~vrtspike.sst.scores.skill`, by ``about``, ``system``, ``sample``,
            and ``lead`` in months ahead; the index is NaN where the region does not hold the whole
            box.
        table: scores with intervals, from :func:`~vrtspike.sst.comparison.compare`.
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


class _Reference:
    """Observations, baselines and weights that forecasts of a data set are measured with.

    Args:
        dataset: the samples; the baselines are fitted to the training years of its store.
        best_possible: best possible forecasts, as for :func:`evaluate`.

    Attributes:
        leads: (lead,) months ahead.
    """

    def __init__(
        self, dataset: ERA5SSTMonthlyDataset, best_possible: xarray.DataArray | None
    ) -> None:
        self._best_possible = best_possible
        ahead = np.arange(dataset.lead) + dataset.offset + 1
        self.leads = xarray.DataArray(ahead, {"lead": ahead}, ("lead",), "lead")
        self._store = dataset.store
        trends = self._store.fields[["trend", "middle"]].astype(float)
        self._cells = trends.assign(weight=self._store.weights).compute()
        self._anomalies = self._store.anomalies.astype(float)
        training = self._anomalies.sel(time=self._store.years.months("train"))
        self._baselines = fit_baselines(training, self._cells, self.leads)
        self._box = self._index_weights()

    def _index_weights(self) -> xarray.DataArray:
        """Return weights (row, column) of the index Niño 3.4; 0 if the region lacks a part."""
        shares = self._store.grid.shares(NINO34)
        weights = self._store.fields["sea"] * shares
        # The mean of a part of the box is not the index.
        if shares.sum() <= _WHOLE_BOX:
            return xarray.zeros_like(weights)
        return weights

    def forecasts(self, output: torch.Tensor, now: xarray.DataArray) -> xarray.DataArray:
        """Return the forecasts of all systems in kelvin.

        Args:
            output: (B, lead, H, W) output of the model, in standard deviations.
            now: (sample,) number of the last month that each sample reads.
        """
        deviation = self._store.of_month("deviation", now + self.leads).astype(float).compute()
        model = (deviation * output.numpy()).expand_dims(system=[MODEL])
        systems = [model, self._baselines(self._measured(now), now)]
        if self._best_possible is not None:
            best = self._best_possible.sel(time=now).drop_vars("time")
            systems.append(best.expand_dims(system=[BEST_POSSIBLE]))
        return xarray.concat(systems, "system")

    def observed(self, now: xarray.DataArray) -> xarray.DataArray:
        """Return observed anomalies of the forecast months in kelvin, NaN but for open sea."""
        return self._measured(now + self.leads)

    def means(
        self, forecasts: xarray.DataArray, observed: xarray.DataArray, now: xarray.DataArray
    ) -> xarray.Dataset:
        """Return the means from which scores are computed, and the weight of the measured cells."""
        trend = trend_line(self._cells, now + self.leads)
        about = pd.Index(["climatology", "trend"], name="about")
        reference = xarray.concat([xarray.zeros_like(trend), trend], about)
        is_open = observed.notnull()
        weights = self._cells["weight"] * is_open
        box = self._box * is_open
        means = field_means(forecasts - reference, observed - reference, weights)
        return means.assign(
            nino34=forecasts.weighted(box).mean(CELLS),
            nino34_observed=observed.weighted(box).mean(CELLS),
            measured=weights.sum(CELLS),
        )

    def _measured(self, months: xarray.DataArray) -> xarray.DataArray:
        return self._anomalies.sel(time=months).drop_vars("time").compute()


@torch.no_grad()
def evaluate(
    forecast: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    dataset: ERA5SSTMonthlyDataset,
    device: torch.device | str = "cpu",
    batch_size: int = 32,
    progress: ProgressCallback = lambda done, total: None,
    best_possible: xarray.DataArray | None = None,
) -> Evaluation:
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
            (:func:`~vrtspike.sst.best_forecasts.best_possible_forecasts`); None where unknown.
    """
    if isinstance(forecast, nn.Module):
        forecast.eval()
    reference = _Reference(dataset, best_possible)
    rows, columns = dataset.store.grid.shape
    size = max(1, min(batch_size, _MAX_VALUES // (dataset.lead * rows * columns)))
    parts: list[xarray.Dataset] = []
    squares = xarray.DataArray(0.0)
    counts = xarray.DataArray(0.0)
    watch = Stopwatch(torch.device(device))
    done = 0
    for batch in DataLoader(dataset, size):
        with watch.lap():
            output = forecast(batch["past"].to(device), batch["month"].to(device)).float().cpu()
        now = xarray.DataArray(dataset.last_months[done : done + len(output)], dims="sample")
        forecasts = reference.forecasts(output, now)
        observed = reference.observed(now)
        parts.append(reference.means(forecasts, observed, now))
        squares = squares + ((forecasts - observed) ** 2).sum("sample")
        counts = counts + observed.notnull().sum("sample")
        done += len(output)
        progress(done, len(dataset))
    means = xarray.concat(parts, "sample")
    table, verdicts = compare(means)
    return Evaluation(
        dataset=dataset,
        means=means,
        table=table,
        verdicts=verdicts,
        errors=(squares / counts) ** 0.5,
        masked=1 - float(means["measured"].mean()),
        model_seconds=watch.seconds,
    )
