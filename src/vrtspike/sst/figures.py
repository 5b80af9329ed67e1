"""Pictures of an evaluation: scores by lead, and maps of error."""

from __future__ import annotations

from pathlib import Path

from vrtspike.plotting.drawing import drawn_figure
from vrtspike.sst.evaluate import ForecastEvaluation
from vrtspike.sst.scores import LABELS, MODEL

LEADS = "leads.png"
ERROR_MAPS = "error_maps.png"
CAPTIONS = {
    LEADS: "Scores by months ahead, with the interval of the model's RMSE",
    ERROR_MAPS: "RMSE of each cell, of the model and of the best baseline",
}
"""Pictures of an evaluation, and their captions."""
_PLOTTED = {
    "rmse_k": "RMSE in kelvin",
    "acc_detrended": "ACC about the trend",
    "nino34": "correlation of Niño 3.4",
}
_COLOR_QUANTILE = 0.99
"""Quantile of the errors at which the colours end: a few cells must not darken the rest."""
_LAND = "#a0aec0"


def draw_evaluation(folder: Path, evaluation: ForecastEvaluation, title: str) -> None:
    """Draw scores by lead and maps of error into a folder (:data:`CAPTIONS`)."""
    _draw_leads(folder / LEADS, evaluation, title)
    _draw_error_maps(folder / ERROR_MAPS, evaluation, title)


def _draw_leads(path: Path, evaluation: ForecastEvaluation, title: str) -> None:
    """Draw the scores of all systems by months ahead, one plot a score that has values."""
    table = evaluation.table
    labels = [LABELS[name] for name in table["system"].values]
    scores = [name for name in _PLOTTED if table[name].notnull().any()]
    leads = table["lead"].values
    with drawn_figure(path, (len(scores) * 3.4 + 2.4, 3.6)) as figure:
        plots = figure.subplots(1, len(scores), squeeze=False)[0]
        for plot, name in zip(plots, scores, strict=True):
            table[name].plot.line(ax=plot, x="lead", marker="o", add_legend=False)
            plot.set(title="", xlabel="months ahead", ylabel=_PLOTTED[name], xticks=leads)
        plots[0].fill_between(leads, table["rmse_k_low"][0], table["rmse_k_high"][0], alpha=0.15)
        figure.legend(plots[0].lines, labels, loc="outside right upper")
        figure.suptitle(title)


def _draw_error_maps(path: Path, evaluation: ForecastEvaluation, title: str) -> None:
    """Draw the RMSE of each cell, the model next to the best baseline.

    There is a row for the first, the middle and the last lead.
    """
    errors = evaluation.errors
    best = evaluation.verdicts["baseline"]
    leads = evaluation.table["lead"].values.tolist()
    leads = [leads[place] for place in sorted({0, len(leads) // 2, len(leads) - 1})]
    pairs = [(lead, system) for lead in leads for system in (MODEL, best[lead])]
    limit = float(errors.sel(system=[MODEL, *best.unique()]).quantile(_COLOR_QUANTILE))
    area = evaluation.dataset.store.grid.area
    extent = (area.lon[0], area.lon[0] + area.width, *area.lat)
    height = 3.6 * min(1.5, max(0.3, area.height / area.width)) + 0.3
    with drawn_figure(path, (8.2, len(leads) * height + 0.8), grid=False) as figure:
        maps = figure.subplots(len(leads), 2, squeeze=False, sharex=True, sharey=True)
        for plot, (lead, system) in zip(maps.flat, pairs, strict=True):
            field = errors.sel(lead=lead, system=system)
            image = plot.imshow(field, extent=extent, vmin=0, vmax=limit)
            plot.set_facecolor(_LAND)
            plot.set_title(f"{LABELS[system]}, {lead} ahead", fontsize=9)
        figure.colorbar(image, ax=maps, label="RMSE in kelvin", extend="max", shrink=0.8)
        figure.suptitle(title)
