"""Forecasts of the test years beside every baseline: scores, intervals, verdicts, pictures.

Every figure comes from means over the open sea, weighted by area, of single fields: of the squared
error, and of forecast and observed anomalies, their products and squares (:func:`field_means`).

- RMSE: root of the mean over forecasts of the mean squared error, kelvin.
- ACC, the anomaly correlation, over all forecasts together: *uncentred*, forecast times observed by
  the root of the product of their squares, or *centred*, after each field's mean was taken off
  (Wilks, 2011). Anomalies are about the climatology of the training years, or about its linear
  trend, which otherwise correlates by itself.
- Intervals come from a moving block bootstrap: blocks of consecutive start months are drawn, as
  neighbouring forecasts are not independent (Künsch, 1989).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import xarray
from matplotlib.figure import Figure
from torch import nn
from torch.utils.data import DataLoader

from vrtspike.plotting.drawing import draw
from vrtspike.sst.baselines import BASELINES, CELLS, Baselines, trend_line
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.grid import Area
from vrtspike.sst.settings import MONTHS

MODEL = "model"
SYSTEMS = {MODEL: MODEL} | BASELINES
"""What is compared: names of columns, and those that people read."""
CAPTIONS = {
    "leads.png": "Scores by months ahead, with the interval of the model's RMSE",
    "error_maps.png": "RMSE of each cell, of the model and of the best baseline",
}
"""Pictures of an evaluation, and what they show."""
_DRAWN = {
    "rmse_k": "RMSE in kelvin",
    "acc_detrended": "ACC about the trend",
    "nino34": "correlation of Niño 3.4",
}
NINO34 = Area("Niño 3.4", lon=[-170, -120], lat=[-5, 5])
BLOCK = 12
"""Start months of a block; a quarter of them where there are fewer than four blocks."""
RESAMPLES = 1000
LEVEL = 0.95
_NOTHING = 1e-12
"""Kelvin squared below which there is no anomaly to correlate."""
_LAND = "#a0aec0"
_HIGHEST = 0.99
"""Quantile of the errors at which the colours end: a few cells must not darken the rest."""

Forecast = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From past (B, seq_len, H, W) and month (B,) to (B, lead, H, W), in standard deviations."""


def field_means(
    forecast: xarray.DataArray, observed: xarray.DataArray, weights: xarray.DataArray
) -> xarray.Dataset:
    """Means over the cells of what scores are made of.

    Args:
        forecast: anomalies in kelvin by row, column and any other dimensions.
        observed: those that came.
        weights: any unit; 0 where a cell does not count, whatever forecast and observed are there.
    """
    said, came = forecast.where(weights > 0, 0), observed.where(weights > 0, 0)
    products = {
        "error2": (said - came) ** 2,
        "forecast": said,
        "observed": came,
        "product": said * came,
        "forecast2": said**2,
        "observed2": came**2,
    }
    return xarray.Dataset(products).weighted(weights).mean(CELLS)


def skill(means: xarray.Dataset) -> xarray.Dataset:
    """Every score over the dimension ``sample``; NaN where there is no anomaly to correlate.

    Args:
        means: :func:`field_means` by ``system`` and ``about`` (``climatology``, ``trend``), and the
            index ``nino34`` and ``nino34_observed`` in kelvin.
    """
    product, own, other = (means[name] for name in ("product", "forecast2", "observed2"))
    said, came = means["forecast"], means["observed"]
    correlations = {
        "acc": _correlation(product, own, other),
        "acc_centred": _correlation(product - said * came, own - said**2, other - came**2),
    }
    error = means["error2"].sel(about="climatology", drop=True).mean("sample") ** 0.5
    found = {"rmse_k": error, "difference_k": error.sel(system=MODEL, drop=True) - error}
    for about, suffix in {"climatology": "", "trend": "_detrended"}.items():
        for name, values in correlations.items():
            found[name + suffix] = values.sel(about=about, drop=True)
    index, truth = means["nino34"], means["nino34_observed"]
    changes = (index.var("sample") > _NOTHING) & (truth.var("sample") > _NOTHING)
    found["nino34"] = xarray.corr(index, truth, dim="sample").where(changes)
    return xarray.Dataset(found)


def _correlation(
    product: xarray.DataArray, own: xarray.DataArray, other: xarray.DataArray
) -> xarray.DataArray:
    product, own, other = (each.mean("sample") for each in (product, own, other))
    return product / np.sqrt(own.where(own > _NOTHING) * other.where(other > _NOTHING))


def block_choices(samples: int, seed: int = 0, resamples: int = RESAMPLES) -> xarray.DataArray:
    """(resample, sample) places of a moving block bootstrap.

    Args:
        samples: how many consecutive ones there are.
        seed: of the choice.
        resamples: how many.
    """
    block = BLOCK if samples >= 4 * BLOCK else max(1, samples // 4)
    count = -(-samples // block)
    starts = np.random.default_rng(seed).integers(0, samples - block + 1, (resamples, count))
    places = (starts[..., None] + np.arange(block)).reshape(resamples, -1)[:, :samples]
    return xarray.DataArray(places, dims=("resample", "sample"))


def interval(values: xarray.Dataset) -> xarray.Dataset:
    """By ``end`` (``low``, ``high``): what holds the :data:`LEVEL` of the resamples."""
    ends = values.quantile([(1 - LEVEL) / 2, (1 + LEVEL) / 2], "resample", skipna=False)
    return ends.rename(quantile="end").assign_coords(end=["low", "high"])


def verdict(low: float, high: float) -> str:
    """What the interval of a difference of RMSE (model less baseline) says.

    >>> verdict(-0.2, -0.05), verdict(-0.2, 0.05), verdict(0.1, 0.2)
    ('better than', 'not distinguishable from', 'worse than')
    """
    if high < 0:
        return "better than"
    return "worse than" if low > 0 else "not distinguishable from"


@dataclass(frozen=True)
class Evaluation:
    """Forecasts of a split by a model and the baselines (``system``, :data:`SYSTEMS`).

    Attributes:
        dataset: the samples.
        means: what :func:`skill` reads, by ``about``, ``system``, ``sample``,
            and ``lead`` in months ahead; the index is NaN where the region does not hold the whole
            box.
        cells: RMSE of each cell in kelvin by ``system``, ``lead``, row and column; NaN where it is
            never open sea.
        masked: share of sea and months that are not measured, because there is ice.
    """

    dataset: ERA5SSTMonthlyDataset
    means: xarray.Dataset
    cells: xarray.DataArray
    masked: float

    @cached_property
    def table(self) -> xarray.Dataset:
        """Every score by ``system`` and ``lead``; NaN where there is none.

        ``_low`` and ``_high`` are the ends of the interval of a score, ``_detrended`` is about the
        trend.
        """
        found, ends = skill(self.means), interval(self._resampled)
        names = [(name, str(end)) for name in found for end in ends["end"].values]
        return found.assign({f"{n}_{end}": ends[n].sel(end=end, drop=True) for n, end in names})

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The model beside the best baseline, a row for each ``lead``.

        ``difference_k`` of the RMSE has an interval (``low_k``, ``high_k``) and ``p``: twice the
        share of resamples on the other side of 0, the estimate itself counted as one of them, so
        that it is never 0 (Davison and Hinkley, 1997).
        """
        best = self.table["rmse_k"].sel(system=list(BASELINES)).idxmin("system")
        beside = self.table.sel(system=best).drop_vars("system")
        drawn = self._resampled["difference_k"].sel(system=best).drop_vars("system")
        beyond = np.minimum((drawn >= 0).sum("resample"), (drawn <= 0).sum("resample"))
        columns = {
            "baseline": best,
            "rmse_k": self.table["rmse_k"].sel(system=MODEL, drop=True),
            "baseline_k": beside["rmse_k"],
            "difference_k": beside["difference_k"],
            "low_k": beside["difference_k_low"],
            "high_k": beside["difference_k_high"],
            "p": np.minimum(1, 2 * (beyond + 1) / (RESAMPLES + 1)),
        }
        table = xarray.Dataset(columns).to_dataframe()
        words = map(verdict, table["low_k"], table["high_k"])
        said = [f"{w} {BASELINES[name]}" for w, name in zip(words, table["baseline"], strict=True)]
        table.insert(0, "verdict", said)
        return table

    @cached_property
    def _resampled(self) -> xarray.Dataset:
        """Every score of each resample of the start months."""
        return skill(self.means.isel(sample=block_choices(len(self.dataset))))


@torch.no_grad()
def evaluate(
    forecast: Forecast,
    dataset: ERA5SSTMonthlyDataset,
    device: torch.device | str = "cpu",
    batch_size: int = 32,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Forecast every sample of a data set.

    Args:
        forecast: a model, or any function like it. A model forecasts as in use, without dropout.
        dataset: the samples.
        device: where the forecast is computed.
        batch_size: samples that are forecast at once.
        progress: called with the samples done and their total.
    """
    if isinstance(forecast, nn.Module):
        forecast.eval()
    store, anomalies = dataset.store, dataset.store.anomalies
    leads = np.arange(dataset.lead) + dataset.offset + 1
    cells = store.fields[["trend", "middle"]].astype(float).assign(weight=store.weights)
    # Where a part of the box lies outside of the region, its mean is not the index.
    shares = store.grid.shares(NINO34)
    box = store.fields["sea"] * shares * (shares.sum() > 1 - 1e-6)
    training = store.years.months("train")
    baselines = Baselines(
        anomalies.sel(time=slice(training[0], training[-1])), cells, leads.tolist()
    )
    means = []
    squares, counts = xarray.DataArray(0.0), xarray.DataArray(0)
    starts = range(0, len(dataset), batch_size)
    for start, batch in zip(starts, DataLoader(dataset, batch_size), strict=True):
        past, month = batch["past"].to(device), batch["month"].to(device)
        output = forecast(past, month).double().cpu().numpy()
        indices = range(start, start + len(output))
        now = xarray.DataArray([dataset.last_month(index) for index in indices], dims="sample")
        months = now + xarray.DataArray(leads, {"lead": leads}, ("lead",))
        last, observed = (
            anomalies.sel(time=each).drop_vars("time").compute() for each in (now, months)
        )
        deviation = store.fields["deviation"].astype(float).isel(month=months % MONTHS)
        own = (deviation * output).expand_dims(system=[MODEL])
        said, known = xarray.concat([own, baselines(last, now)], "system"), observed.notnull()
        about = [
            field_means(said - base, observed - base, cells["weight"] * known)
            for base in (xarray.zeros_like(observed), trend_line(cells, months))
        ]
        found = xarray.concat(about, pd.Index(["climatology", "trend"], name="about"))
        index, truth = (each.weighted(box * known).mean(CELLS) for each in (said, observed))
        means.append(found.assign(nino34=index, nino34_observed=truth))
        squares = squares + ((said - observed) ** 2).sum("sample")
        counts = counts + known.sum("sample")
        progress(indices[-1] + 1, len(dataset))
    return Evaluation(
        dataset,
        xarray.concat(means, "sample"),
        (squares / counts.where(counts > 0)) ** 0.5,
        float(((1 - counts / len(dataset)) * cells["weight"]).sum()) / len(leads),
    )


def draw_evaluation(folder: Path, found: Evaluation, title: str) -> None:
    """Draw scores by lead and maps of error into a folder (:data:`CAPTIONS`)."""
    table = found.table.assign_coords(system=list(SYSTEMS.values()))
    drawn = [name for name in _DRAWN if table[name].notnull().any()]
    leads = table["lead"].values

    def by_lead(figure: Figure) -> None:
        places = figure.subplots(1, len(drawn), squeeze=False)[0]
        for place, name in zip(places, drawn, strict=True):
            table[name].plot.line(ax=place, x="lead", marker="o", add_legend=False)
            place.set(title="", xlabel="months ahead", ylabel=_DRAWN[name], xticks=leads)
        places[0].fill_between(leads, table["rmse_k_low"][0], table["rmse_k_high"][0], alpha=0.15)
        figure.legend(places[0].lines, table["system"].values, loc="outside right upper")
        figure.suptitle(title)

    shown = sorted({0, len(leads) // 2, len(leads) - 1})
    area = found.dataset.store.area
    extent = (area.lon[0], area.lon[0] + area.width, *area.lat)
    systems = [MODEL, *found.verdicts["baseline"].unique()]
    most = float(found.cells.sel(system=systems).quantile(_HIGHEST))

    def maps(figure: Figure) -> None:
        places = figure.subplots(len(shown), 2, squeeze=False, sharex=True, sharey=True)
        for row, lead in zip(places, shown, strict=True):
            for place, system in zip(
                row, (MODEL, found.verdicts["baseline"].iloc[lead]), strict=True
            ):
                field = found.cells.sel(system=system).isel(lead=lead)
                image = place.imshow(field, extent=extent, vmin=0, vmax=most)
                place.set_facecolor(_LAND)
                place.set_title(f"{SYSTEMS[system]}, {leads[lead]} ahead", fontsize=9)
        figure.colorbar(image, ax=places, label="RMSE in kelvin", extend="max", shrink=0.8)
        figure.suptitle(title)

    height = 3.6 * min(1.5, max(0.3, area.height / area.width)) + 0.3
    draw(folder / "leads.png", by_lead, (len(drawn) * 3.4 + 2.4, 3.6))
    draw(folder / "error_maps.png", maps, (8.2, len(shown) * height + 0.8), grid=False)
