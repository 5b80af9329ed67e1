"""Quality over cost: PSNR against the time of a frame and the number of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.ticker import LogLocator, NullLocator
from matplotlib.transforms import Bbox

from vrtspike.config.tasks import DEFAULT_PROTOCOL
from vrtspike.evaluation.paper_results import OTHER, read_paper_results
from vrtspike.paper_figures.results import Cost
from vrtspike.paper_figures.style import (
    COLUMN_WIDTH,
    FONT_SIZE,
    TEXT_WIDTH,
    FontName,
    line_style,
    paper_figure,
)

_HEIGHT = 2.2
_PUBLISHED = "0.35"
_MARGIN = 0.22
_LOG_RANGE = 5
"""Ratio of the largest to the smallest cost from which on the axis is logarithmic."""
_LABEL_POSITIONS = (
    ((0, 5), "center", "bottom"),
    ((0, -5), "center", "top"),
    ((6, 0), "left", "center"),
    ((-6, 0), "right", "center"),
)
"""Offsets of a name from its point in points, and its alignment, the preferred one first."""
DEVICE_TITLES = {"cpu": "CPU", "cuda": "GPU"}


def cost_table(costs: Sequence[tuple[str, Cost]]) -> pd.DataFrame:
    """Return the numbers of the figure.

    Args:
        costs: names and costs of own results, all measured under one protocol.

    Returns:
        a row for each result, and after them for each published model with known parameters under
        the protocol: ``model``, the fields of :class:`Cost`, and ``published``.
    """
    table = pd.DataFrame([{"model": label, **asdict(cost)} for label, cost in costs])
    # A column of unknown numbers has no type of its own.
    table = table.astype({"parameters": float, "seconds": float}).assign(published=False)
    protocol = table["protocol"].iloc[0]
    published = read_paper_results().dropna(subset=["parameters", "psnr"])
    published = published[published["protocol"] == protocol].assign(device="", published=True)
    if protocol == OTHER or published.empty:
        return table
    return pd.concat([table, published], ignore_index=True)[table.columns]


def draw_quality_over_cost(stem: Path, table: pd.DataFrame, font: FontName = "sans") -> None:
    """Draw a panel for each kind of cost that is known.

    Published models have hollow points. Names carry the device or the data set where these differ.

    Args:
        stem: path of the files without their suffix.
        table: from :func:`cost_table`; at least one row has a cost.
        font: ``sans`` or ``serif``.
    """
    devices = list(dict.fromkeys(table.loc[table["seconds"].notna(), "device"]))
    kinds = {
        "seconds": ("seconds per frame, measured", 1.0),
        "parameters": ("parameters, millions", 1e-6),
    }
    if len(devices) == 1:
        kinds["seconds"] = (f"seconds per frame ({DEVICE_TITLES.get(devices[0], devices[0])})", 1.0)
    shown = {name: kind for name, kind in kinds.items() if table[name].notna().any()}
    width = TEXT_WIDTH if len(shown) > 1 else COLUMN_WIDTH
    with paper_figure(stem, (width, _HEIGHT), font) as figure:
        panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        labels = []
        for axes, (name, (title, scale)) in zip(panels, shown.items(), strict=True):
            rows = table[table[name].notna()]
            names = _names(rows, with_device=name == "seconds" and len(devices) > 1)
            labels.append(_draw_points(axes, rows, rows[name].astype(float) * scale, names))
            axes.set_xlabel(title)
        protocol = table["protocol"].iloc[0]
        panels[0].set_ylabel(
            "PSNR, dB" if protocol == DEFAULT_PROTOCOL else f"PSNR, dB (protocol {protocol})"
        )
        # Places of texts are known once the axes have their places.
        figure.draw_without_rendering()
        for texts in labels:
            _separate_labels(texts)


def _names(rows: pd.DataFrame, *, with_device: bool) -> list[str]:
    """Return the names that stand next to the points of the models."""
    dataset = rows["dataset"].iloc[0]
    names = []
    for row in rows.to_dict("records"):
        name = str(row["model"])
        if row["dataset"] != dataset:
            name += f" ({row['dataset']})"
        if with_device:
            name += f" ({DEVICE_TITLES.get(row['device'], row['device'])})"
        names.append(name)
    return names


def _draw_points(
    axes: Axes, rows: pd.DataFrame, costs: pd.Series, names: Sequence[str]
) -> list[Annotation]:
    """Draw the models of a panel; give their names."""
    if float(costs.max()) > _LOG_RANGE * float(costs.min()):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    texts = []
    numbers = rows.index.tolist()
    records = rows.to_dict("records")
    for number, row, cost, name in zip(numbers, records, costs.tolist(), names, strict=True):
        style = line_style(number)
        color = _PUBLISHED if row["published"] else style.color
        axes.plot(
            cost,
            row["psnr"],
            linestyle="none",
            marker="o" if row["published"] else style.marker,
            markersize=5,
            color=color,
            markerfacecolor="white" if row["published"] else color,
        )
        point = (cost, row["psnr"])
        text = axes.annotate(
            name, point, (0, 5), textcoords="offset points", fontsize=FONT_SIZE - 1, color=color
        )
        texts.append(text)
    axes.margins(x=_MARGIN, y=_MARGIN)
    return texts


def _separate_labels(texts: Sequence[Annotation]) -> None:
    """Place each name above, below or next to its point, where it covers no other name."""
    placed: list[Bbox] = []
    for text in texts:
        for offset, across, down in _LABEL_POSITIONS:
            text.set(position=offset, ha=across, va=down)
            extent = text.get_window_extent()
            if not any(extent.overlaps(other) for other in placed):
                break
        placed.append(extent)
