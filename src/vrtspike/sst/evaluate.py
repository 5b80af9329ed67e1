"""Forecasts of the test years beside every baseline: scores, intervals, verdicts, pictures.

Every figure comes from means over the open sea, weighted by area, of single fields: of the squared
error, and of forecast and observed anomalies, their products and squares (:func:`field_means`).

- RMSE: root of the mean over forecasts of the mean squared error, kelvin.
- ACC, the anomaly correlation, over all forecasts together: *uncentred*, forecast times observed by
  the root of the product of their squares, or *centred*, after each field's mean was taken off
  (Wilks, 2011). Anomalies are about the climatology of the training years, or about its linear
  trend, which otherwise correlates by itself.
- Intervals are Student's t, with the standard error of a moving block bootstrap: blocks of
  consecutive start months are drawn, as neighbouring forecasts are not independent (Künsch, 1989).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import xarray
from pydantic import JsonValue
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader

from vrtspike.analysis.evaluation_files import (
    PICTURES,
    TABLE,
    EvaluationJob,
    chosen_on,
    write_evaluation,
)
from vrtspike.config.run_schema import kept_note
from vrtspike.io.files import finite_or_null, replaced_folder
from vrtspike.plotting.drawing import drawn_figure
from vrtspike.plotting.pages import Table, write_page
from vrtspike.sst.baselines import BASELINES, fit_baselines, trend_line
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.grid import CELLS, Area
from vrtspike.sst.settings import METRICS, RMSE, month_name

MODEL = "model"
SYSTEMS = {MODEL: MODEL} | BASELINES
"""Compared forecasts: names of columns, and labels."""
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
FEWEST = 12
"""Start months below which :func:`compare` gives no intervals and no verdicts."""
RESAMPLES = 1000
LEVEL = 0.95
_VALUES = 2_000_000
"""Forecast values that are compared at once; with all baselines they take a gigabyte."""
_NOTHING = 1e-12
"""Kelvin squared below which there is no anomaly to correlate."""
_HIGHEST = 0.99
"""Quantile of the errors at which the colours end: a few cells must not darken the rest."""

_SCORES = (
    "acc_centred: after each field's mean was taken off; _detrended: anomalies about the linear "
    "trend of the training years; nino34: correlation of the index; difference_k: RMSE of the "
    "model less that of the system; _low and _high: 95 % interval by Student's t, with the "
    "standard error of a moving block bootstrap over start months."
)


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
    error = means["error2"].sel(about="climatology", drop=True).mean("sample") ** 0.5
    found = {"rmse_k": error, "difference_k": error.sel(system=MODEL, drop=True) - error}
    said, came = means["forecast"], means["observed"]
    products = means[["product", "forecast2", "observed2"]]
    centred = {"product": said * came, "forecast2": said**2, "observed2": came**2}
    for name, parts in {"acc": products, "acc_centred": products - xarray.Dataset(centred)}.items():
        product, own, other = parts.mean("sample").values()
        norm = np.sqrt(own.where(own > _NOTHING) * other.where(other > _NOTHING))
        for about, suffix in {"climatology": "", "trend": "_detrended"}.items():
            found[name + suffix] = (product / norm).sel(about=about, drop=True)
    index, truth = means["nino34"], means["nino34_observed"]
    changes = (index.var("sample") > _NOTHING) & (truth.var("sample") > _NOTHING)
    found["nino34"] = xarray.corr(index, truth, dim="sample").where(changes)
    return xarray.Dataset(found)


def block_length(samples: int) -> int:
    """Start months of a block: :data:`BLOCK`, or a quarter of all."""
    return BLOCK if samples >= 4 * BLOCK else max(1, samples // 4)


def block_choices(samples: int, seed: int = 0, resamples: int = RESAMPLES) -> xarray.DataArray:
    """(resample, sample) places of a moving block bootstrap.

    Args:
        samples: how many consecutive ones there are.
        seed: of the choice.
        resamples: how many.
    """
    block = block_length(samples)
    count = -(-samples // block)
    starts = np.random.default_rng(seed).integers(0, samples - block + 1, (resamples, count))
    places = (starts[..., None] + np.arange(block)).reshape(resamples, -1)[:, :samples]
    return xarray.DataArray(places, dims=("resample", "sample"))


@dataclass(frozen=True)
class Evaluation:
    """Forecasts of a split by a model and the baselines (``system``, :data:`SYSTEMS`).

    Attributes:
        dataset: the samples.
        means: what :func:`skill` reads, by ``about``, ``system``, ``sample``, and ``lead`` in
            months ahead; the index is NaN where the region does not hold the whole box.
        table: see :func:`compare`.
        verdicts: likewise.
        errors: the RMSE of each cell in kelvin by ``system`` and ``lead``, NaN where it is never
            open sea.
        masked: the share of sea and months that are not measured, because there is ice.
    """

    dataset: ERA5SSTMonthlyDataset
    means: xarray.Dataset
    table: xarray.Dataset
    verdicts: pd.DataFrame
    errors: xarray.DataArray
    masked: float


def compare(means: xarray.Dataset) -> tuple[xarray.Dataset, pd.DataFrame]:
    """Scores with their intervals, and the model beside the best baseline.

    Args:
        means: as of :func:`skill`; their samples are consecutive start months.

    Returns:
        Every score by ``system`` and ``lead``, NaN where there is none: ``_low`` and ``_high`` are
        the ends of its interval, ``_detrended`` is about the trend. And a row for each ``lead``:
        ``difference_k`` of the RMSE has an interval (``low_k``, ``high_k``) and the ``p`` of no
        difference.

        The bootstrap's standard error is that of few blocks, so that intervals and p are those of
        Student's t with one degree of freedom less than blocks: equally good simulated forecasts,
        whose errors correlate by 0.5 to 0.7 from month to month, are told apart in 4 to 11 % of
        cases for 12 to 120 start months, by quantiles of the resamples in 12 to 30 %. Of fewer than
        :data:`FEWEST` samples all are NaN.
    """
    table, samples = skill(means), means.sizes["sample"]
    drawn = skill(means.isel(sample=block_choices(samples))).where(samples >= FEWEST)
    student = stats.t(max(1, samples / block_length(samples) - 1))
    error = drawn.std("resample", ddof=1, skipna=False)
    for name, half in (error * student.ppf((1 + LEVEL) / 2)).items():
        # Correlations end at 1.
        most = 1.0 if str(name).startswith(("acc", "nino34")) else np.inf
        table[f"{name}_low"] = (table[name] - half).clip(-most)
        table[f"{name}_high"] = (table[name] + half).clip(max=most)
    best = table["rmse_k"].sel(system=list(BASELINES)).idxmin("system")
    beside = table.sel(system=best).to_dataframe()
    standard = error["difference_k"].sel(system=best).to_series()
    # Where nothing differs, nothing varies.
    ratio = (beside["difference_k"].abs() / standard).fillna(0.0)
    low, high = beside["difference_k_low"], beside["difference_k_high"]
    few, nothing = "too few start months to tell from", "without an RMSE to compare with"
    found = np.select(
        [high.isna(), high < 0, low > 0],
        [few if samples < FEWEST else nothing, "better than", "worse than"],
        "not distinguishable from",
    )
    columns = {
        "verdict": found + " " + beside["system"].map(BASELINES),
        "baseline": beside["system"],
        "rmse_k": table["rmse_k"].sel(system=MODEL).to_series(),
        "baseline_k": beside["rmse_k"],
        "difference_k": beside["difference_k"],
        "low_k": low,
        "high_k": high,
        "p": 2 * student.sf(ratio) + 0 * high,
    }
    return table, pd.DataFrame(columns)


@torch.no_grad()
def evaluate(
    forecast: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    dataset: ERA5SSTMonthlyDataset,
    device: torch.device | str = "cpu",
    batch_size: int = 32,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Forecast every sample of a data set.

    Args:
        forecast: from past (B, seq_len, H, W) and month (B,) to (B, lead, H, W), in standard
            deviations: a model, which forecasts as in use, without dropout, or any such function.
        dataset: the samples.
        device: where the forecast is computed.
        batch_size: samples that are forecast, and compared, at once.
        progress: called with the samples that are forecast and their total.
    """
    if isinstance(forecast, nn.Module):
        forecast.eval()
    store = dataset.store
    ahead = np.arange(dataset.lead) + dataset.offset + 1
    leads = xarray.DataArray(ahead, {"lead": ahead}, ("lead",), "lead")
    cells = store.fields[["trend", "middle"]].astype(float).assign(weight=store.weights).compute()
    anomalies = store.anomalies.astype(float)
    baselines = fit_baselines(anomalies.sel(time=store.years.months("train")), cells, leads)
    # Where a part of the box lies outside of the region, its mean is not the index.
    shares = store.grid.shares(NINO34)
    box = store.fields["sea"] * shares * (shares.sum() > 1 - 1e-6)
    size = max(1, min(batch_size, _VALUES // (len(leads) * box.size)))
    parts: list[xarray.Dataset] = []
    squares = counts = xarray.DataArray(0.0)
    for start, batch in zip(range(0, len(dataset), size), DataLoader(dataset, size), strict=True):
        output = forecast(batch["past"].to(device), batch["month"].to(device)).float().cpu()
        now = xarray.DataArray(dataset.last_months[start : start + size], dims="sample")
        months = now + leads
        last, observed = (anomalies.sel(time=n).drop_vars("time").compute() for n in (now, months))
        own = store.of_month("deviation", months).astype(float).compute() * output.numpy()
        said = xarray.concat([own.expand_dims(system=[MODEL]), baselines(last, now)], "system")
        trend = trend_line(cells, months)
        base = xarray.concat([0 * trend, trend], pd.Index(["climatology", "trend"], name="about"))
        known = observed.notnull()
        weights = cells["weight"] * known
        index, truth = (each.weighted(box * known).mean(CELLS) for each in (said, observed))
        means = field_means(said - base, observed - base, weights)
        measured = {"nino34": index, "nino34_observed": truth, "measured": weights.sum(CELLS)}
        parts.append(means.assign(measured))
        squares = squares + ((said - observed) ** 2).sum("sample")
        counts = counts + known.sum("sample")
        progress(start + len(output), len(dataset))
    means = xarray.concat(parts, "sample")
    masked = 1 - float(means["measured"].mean())
    return Evaluation(dataset, means, *compare(means), (squares / counts) ** 0.5, masked)


def draw_evaluation(folder: Path, found: Evaluation, title: str) -> None:
    """Draw scores by lead and maps of error into a folder (:data:`CAPTIONS`)."""
    table = found.table.assign_coords(system=list(SYSTEMS.values()))
    drawn = [name for name in _DRAWN if table[name].notnull().any()]
    leads = table["lead"].values

    with drawn_figure(folder / "leads.png", (len(drawn) * 3.4 + 2.4, 3.6)) as figure:
        places = figure.subplots(1, len(drawn), squeeze=False)[0]
        for place, name in zip(places, drawn, strict=True):
            table[name].plot.line(ax=place, x="lead", marker="o", add_legend=False)
            place.set(title="", xlabel="months ahead", ylabel=_DRAWN[name], xticks=leads)
        places[0].fill_between(leads, table["rmse_k_low"][0], table["rmse_k_high"][0], alpha=0.15)
        figure.legend(places[0].lines, table["system"].values, loc="outside right upper")
        figure.suptitle(title)

    shown = leads[sorted({0, len(leads) // 2, len(leads) - 1})]
    best = found.verdicts["baseline"]
    pairs = [(lead, system) for lead in shown for system in (MODEL, best[lead])]
    area, errors = found.dataset.store.grid.area, found.errors
    extent = (area.lon[0], area.lon[0] + area.width, *area.lat)
    most = float(errors.sel(system=[MODEL, *best.unique()]).quantile(_HIGHEST))

    height = 3.6 * min(1.5, max(0.3, area.height / area.width)) + 0.3
    size = (8.2, len(shown) * height + 0.8)
    with drawn_figure(folder / "error_maps.png", size, grid=False) as figure:
        places = figure.subplots(len(shown), 2, squeeze=False, sharex=True, sharey=True)
        for place, (lead, system) in zip(places.flat, pairs, strict=True):
            field = errors.sel(lead=lead, system=system)
            image = place.imshow(field, extent=extent, vmin=0, vmax=most)
            place.set_facecolor("#a0aec0")  # land
            place.set_title(f"{SYSTEMS[system]}, {lead} ahead", fontsize=9)
        figure.colorbar(image, ax=places, label="RMSE in kelvin", extend="max", shrink=0.8)
        figure.suptitle(title)


def write_results(job: EvaluationJob, found: Evaluation, **facts: JsonValue) -> list[str]:
    """Write the files that the pipeline's page, report and comparison read.

    A *frame* of the tables is the forecast of one month, a *sequence* all those that look equally
    far ahead.

    Args:
        job: into its folder go ``frames.csv``, ``sequences.csv``, ``summary.json``,
            ``metrics.html`` and ``pictures/``; ``examples/`` stays empty.
        found: its evaluation.
        facts: further entries of the summary.

    Returns:
        what a person reads of it.
    """
    samples = found.dataset
    store, verdicts = samples.store, found.verdicts.reset_index()
    frames, sequences = metric_tables(found)
    enough = len(samples) >= FEWEST
    told = [
        f"{row.lead} ahead: RMSE {row.rmse_k:.3f} K, {row.verdict} ({row.baseline_k:.3f} K; "
        f"difference {row.difference_k:+.3f} K"
        f"{f', 95 % interval {row.low_k:+.3f} to {row.high_k:+.3f}, p = {row.p:.3f}' * enough})"
        for row in verdicts.itertuples()
    ]
    first, last = getattr(store.years, samples.split.upper())
    title = f"{store.grid.area.name}, {first} to {last} ({samples.split})"
    warnings = [chosen_on("the validation split", "TEST.SPLIT is val")] * (samples.split == "val")
    if (start := job.run.settings.kept_start) is not None:
        warnings.append(kept_note(start))
    masked = f"{found.masked:.1%} of the sea is masked as ice ({store.manifest['ice']})"
    left_out = f"{samples.left_out} samples with missing months are left out"
    note = "; ".join([f"{len(frames)} forecasts", masked, left_out, *warnings])
    definitions = {name: metric.explanation for name, metric in METRICS.items()}
    definitions[RMSE] += f"; baseline: the best of {len(BASELINES)} at each lead; {'; '.join(told)}"
    with replaced_folder(job.output / PICTURES) as folder:
        draw_evaluation(folder, found, title)
    every = found.table.to_dataframe(["lead", "system"]).reset_index()
    formats = {name: ".3f" for name in [*every, *verdicts] if name != "lead"}
    write_page(
        job.output / TABLE,
        f"Results of preset {job.run.name}",
        f"{title}: {note}.",
        [
            Table(verdicts, "The model and the best baseline", formats=formats),
            Table(every.replace({"system": SYSTEMS}), "Every score", formats=formats),
        ],
        [*(f"{name}: {text}." for name, text in definitions.items()), _SCORES],
    )
    write_evaluation(
        job,
        samples.split,
        frames,
        sequences,
        definitions=definitions,
        warnings=warnings,
        figures=[{"file": f"{PICTURES}/{n}", "caption": c} for n, c in CAPTIONS.items()],
        masked=found.masked,
        leads=finite_or_null(verdicts.to_dict("records")),
        **facts,
    )
    return [f"{job.run.name}, {title}: {note}", *(f"  {line}" for line in told)]


def metric_tables(found: Evaluation) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both metrics of the model, of the best baseline and of each baseline.

    Returns:
        a row for each month forecast; and one for each number of months ahead, over all its
        forecasts together.
    """
    best = xarray.DataArray(found.verdicts["baseline"])
    systems = {"": MODEL, "_baseline": best, **{f"_{name}": name for name in BASELINES}}

    def table(scores: xarray.Dataset, dims: Sequence[str]) -> pd.DataFrame:
        columns = {
            f"{metric}{suffix}": scores[score].sel(system=system).drop_vars("system")
            for suffix, system in systems.items()
            for metric, score in zip(METRICS, ("rmse_k", "acc"), strict=True)
        }
        rows = xarray.Dataset(columns).to_dataframe(dims).reset_index()
        return rows.assign(sequence=[f"{n} month{'s' * (n > 1)} ahead" for n in rows["lead"]])

    each = skill(found.means.rename(sample="frame").expand_dims("sample"))
    frames, sequences = table(each, ["lead", "frame"]), table(found.table, ["lead"])
    months = np.array(found.dataset.last_months)[frames["frame"]] + frames["lead"]
    frames["frame"], sequences["frames"] = [*map(month_name, months)], len(found.dataset)
    return frames, sequences
