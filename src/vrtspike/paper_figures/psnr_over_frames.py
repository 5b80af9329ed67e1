"""PSNR over the frame number: a line for each model and one for the blurry input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from vrtspike.paper_figures.style import (
    COLUMN_WIDTH,
    INPUT_STYLE,
    TEXT_WIDTH,
    FontName,
    line_style,
    paper_figure,
)
from vrtspike.system.rounding import ceil_div

PANEL_COLUMNS = 3
"""Panels next to each other, if there are as many sequences."""
MAX_MARKERS = 12
"""Maximum markers of a line: more hide it."""
_PANEL_HEIGHT = 1.45
_SINGLE_HEIGHT = 2.1
_LEGEND_HEIGHT = 0.25


def psnr_table(frame_psnr: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of the figure, with the blurry input as a model of its own.

    Args:
        frame_psnr: table from :meth:`~vrtspike.paper_figures.results.ComparedResults.frame_psnr`.

    Returns:
        ``sequence``, ``frame``, ``number``, ``blurry`` and a column for each model, in dB.
    """
    keys = ["sequence", "frame", "number"]
    names = list(dict.fromkeys(frame_psnr["model"]))
    blurry = frame_psnr.groupby(keys, sort=False)["psnr_blur"].first()
    models = frame_psnr.pivot_table(index=keys, columns="model", values="psnr", sort=False)
    # The pivot table lacks models of which no frame has a value.
    table = models.reindex(index=blurry.index, columns=names)
    table.insert(0, "blurry", blurry)
    table.columns.name = None
    return table.reset_index()


def draw_psnr_over_frames(
    stem: Path, table: pd.DataFrame, sequences: Sequence[str], font: FontName = "sans"
) -> None:
    """Draw a panel for each sequence.

    Args:
        stem: path of the files without their suffix.
        table: from :func:`psnr_table`.
        sequences: the sequences to draw.
        font: ``sans`` or ``serif``.
    """
    columns = min(PANEL_COLUMNS, len(sequences))
    rows = ceil_div(len(sequences), columns)
    size = (COLUMN_WIDTH, _SINGLE_HEIGHT)
    if len(sequences) > 1:
        size = (TEXT_WIDTH, rows * _PANEL_HEIGHT + _LEGEND_HEIGHT)
    with paper_figure(stem, size, font) as figure:
        panels = figure.subplots(rows, columns, sharey=True, squeeze=False)
        for axes, sequence in zip(panels.flat, sequences, strict=False):
            _draw_panel(axes, table[table["sequence"] == sequence])
            axes.set_title(sequence, loc="left", pad=3)
        for axes in panels.flat[len(sequences) :]:
            axes.set_axis_off()
        for axes in panels[:, 0]:
            axes.set_ylabel("PSNR, dB")
            axes.yaxis.set_major_locator(MaxNLocator(5))
        for column in range(columns):
            lowest = (len(sequences) - 1 - column) // columns
            panels[lowest, column].set_xlabel("frame number")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside upper center",
            ncols=min(len(labels), 3 if len(sequences) == 1 else 6),
            columnspacing=1.2,
            borderaxespad=0.1,
        )


def _draw_panel(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw the lines of one sequence."""
    numbers = rows["number"].to_numpy()
    markers = np.unique(np.linspace(0, len(numbers) - 1, MAX_MARKERS).round().astype(int))
    models = [name for name in rows.columns if name not in ("sequence", "frame", "number")]
    for index, name in enumerate(models):
        style = INPUT_STYLE if index == 0 else line_style(index - 1)
        axes.plot(
            numbers,
            rows[name].to_numpy(float),
            color=style.color,
            linestyle=style.dashes,
            marker=style.marker,
            markevery=markers.tolist(),
            label=name,
        )
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.margins(x=0.03)
