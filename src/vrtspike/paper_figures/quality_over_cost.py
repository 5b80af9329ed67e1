"""Quality over cost: PSNR against the time of a frame and the number of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from vrtspike.paper_figures.results import Cost
from vrtspike.plotting.paper import COLUMN_WIDTH, TEXT_WIDTH, FontName, line_style, paper_figure

_HEIGHT = 2.2
_PUBLISHED = "0.35"
_MARGIN = 0.22


def cost_table(costs: Sequence[tuple[str, Cost]]) -> pd.DataFrame:
    """The numbers of the figure: a row for each model, with its name in ``model``."""
    return pd.DataFrame([{"model": label, **asdict(cost)} for label, cost in costs])


def draw_quality_over_cost(stem: Path, table: pd.DataFrame, font: FontName = "sans") -> None:
    """Draw a panel for each kind of cost that is known.

    Published models have hollow points.

    Args:
        stem: path of the files without their suffix.
        table: from :func:`cost_table`; at least one row has a cost.
        font: of all texts.
    """
    devices = ", ".join(dict.fromkeys(table.loc[table["seconds"].notna(), "device"]))
    kinds = {
        "seconds": (f"seconds per frame ({devices})", 1.0),
        "parameters": ("parameters, millions", 1e-6),
    }
    shown = {name: kind for name, kind in kinds.items() if table[name].notna().any()}
    width = TEXT_WIDTH if len(shown) > 1 else COLUMN_WIDTH
    with paper_figure(stem, (width, _HEIGHT), font) as figure:
        panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axes, (name, (title, scale)) in zip(panels, shown.items(), strict=True):
            rows = table[table[name].notna()]
            _draw_points(axes, rows, rows[name].astype(float) * scale)
            axes.set_xlabel(title)
        panels[0].set_ylabel(f"PSNR, dB ({table['protocol'].iloc[0]})")


def _draw_points(axes: Axes, rows: pd.DataFrame, costs: pd.Series) -> None:
    """Draw the models of a panel with their names."""
    dataset = rows["dataset"].iloc[0]
    low = float(costs.min())
    high = float(costs.max())
    if high > 5 * low:
        axes.set_xscale("log")
    for index, row in rows.iterrows():
        style = line_style(int(str(index)))
        name = str(row["model"])
        if row["dataset"] != dataset:
            name += f" ({row['dataset']})"
        colour = _PUBLISHED if row["published"] else style.colour
        axes.plot(
            costs[index],
            row["psnr"],
            linestyle="none",
            marker="o" if row["published"] else style.marker,
            markersize=5,
            color=colour,
            markerfacecolor="white" if row["published"] else colour,
        )
        axes.annotate(
            name,
            (costs[index], row["psnr"]),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7,
            color=colour,
        )
    axes.margins(x=_MARGIN, y=_MARGIN)
