"""A picture of how well spikes and frames of a data set fit together."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from vrtspike.drawing import draw, say

MOST_SEQUENCES = 60


def plot_alignment(path: str | Path, table: pd.DataFrame) -> None:
    """Found less expected exposure centre, and correlation, of the frames of each sequence.

    Args:
        path: where to write, ``.svg``.
        table: with the columns of :data:`vrtspike.deblurring.data.gate.alignment_table.COLUMNS`. Of
            more than 60 sequences, those with the lowest correlation are shown. A data set without
            spikes has no rows; the plot then says so.
    """
    name = table["split"] + "/" + table["sequence"]
    worst = table.groupby(name)["correlation"].median().sort_values(na_position="last")
    shown = sorted(worst.index[:MOST_SEQUENCES], reverse=True)

    def fill(figure: Figure) -> None:
        if table.empty:
            say(figure.subplots(), "The data set has no spikes.")
            return
        left, right = figure.subplots(1, 2, sharey=True)
        for place, sequence in enumerate(shown):
            frames = table[name == sequence]
            offset = frames["center"] - frames["expected_center"]
            for axes, values in ((left, offset), (right, frames["correlation"])):
                axes.plot(values, [place] * len(values), "o", markersize=3, alpha=0.6, color="C0")
        left.set_yticks(range(len(shown)), shown, fontsize=7)
        left.axvline(0, color="C1", linewidth=1)
        left.set_xlabel("found less expected centre (spike steps)")
        right.set_xlim(-0.05, 1.05)
        right.set_xlabel("correlation of spikes and sharp frame")

    draw(path, fill, (9.0, 1.2 + 0.22 * max(1, len(shown))))
