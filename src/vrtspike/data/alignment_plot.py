"""Plot of the alignment of spikes and sharp frames in a data set."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vrtspike.plotting.drawing import drawn_figure, show_text

MAX_SEQUENCES = 60
"""Maximum number of sequences in the plot."""


def plot_alignment(path: str | Path, table: pd.DataFrame) -> None:
    """Plot the found less the expected exposure centre, and the correlation, of each frame.

    Args:
        path: where to write, ``.svg``.
        table: table with the columns of :data:`vrtspike.data.gate.alignment_table.COLUMNS`. At most
            60 sequences are shown, those with the lowest correlation. A data set without spikes has
            no rows; the plot is then a note.
    """
    name = table["split"] + "/" + table["sequence"]
    worst = table.groupby(name)["correlation"].median().sort_values(na_position="last")
    shown = worst.index[:MAX_SEQUENCES]
    frames = table.assign(name=name)[name.isin(shown)].sort_values("name")

    with drawn_figure(path, (9.0, 1.2 + 0.22 * max(1, len(shown)))) as figure:
        if table.empty:
            show_text(figure.subplots(), "The data set has no spikes.")
            return
        left, right = figure.subplots(1, 2, sharey=True)
        offset = frames["center"] - frames["expected_center"]
        for axes, values in ((left, offset), (right, frames["correlation"])):
            axes.plot(values, frames["name"], "o", markersize=3, alpha=0.6, color="C0")
        left.set_ylim(len(shown) - 0.5, -0.5)
        left.tick_params("y", labelsize=7)
        left.axvline(0, color="C1", linewidth=1)
        left.set_xlabel("found less expected centre (spike steps)")
        right.set_xlim(-0.05, 1.05)
        right.set_xlabel("correlation of spikes and sharp frame")
