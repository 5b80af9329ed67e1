"""Table and plot of a data set's exposures: their times, and the match of spikes and frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from vrtspike.data.manifests import INGESTED
from vrtspike.io.manifests import read_manifest
from vrtspike.plotting.drawing import drawn_figure, show_text

MAX_SEQUENCES = 60
"""Maximum number of sequences in the plot."""

ALIGNMENT_COLUMNS = (
    "split",
    "sequence",
    "frame",
    "t0",
    "t1",
    "spike_count",
    "expected_center",
    "center",
    "correlation",
)
"""``t0`` and ``t1`` are spike steps from the start of the sequence, ``t1`` excluded; centres
are steps of the exposure. ``center`` and ``correlation`` are empty if they cannot be judged."""


def alignment_table(manifests: Iterable[str | Path]) -> pd.DataFrame:
    """Return the exposures of all sequences, sorted by sequence and time.

    Args:
        manifests: paths of all ingest manifests.

    Returns:
        the columns :data:`ALIGNMENT_COLUMNS`; no rows for a data set without spikes.
    """
    rows = []
    for path in manifests:
        manifest = read_manifest(path, INGESTED)
        for frame in manifest["frames"]:
            spikes = frame["spikes"]
            if spikes is None:
                continue
            names = (manifest["split"], manifest["sequence"], frame["name"])
            times = (spikes["t0"], spikes["t1"], spikes["count"], spikes["sharp"])
            rows.append((*names, *times, spikes["center"], spikes["correlation"]))
    table = pd.DataFrame(rows, columns=ALIGNMENT_COLUMNS).astype(
        {"center": float, "correlation": float}
    )
    return table.sort_values(["split", "sequence", "t0"], ignore_index=True)


def plot_alignment(path: str | Path, table: pd.DataFrame) -> None:
    """Plot the measured minus the expected centre of each exposure, and its correlation.

    Args:
        path: where to write, ``.svg``.
        table: table of :func:`alignment_table`. At most 60 sequences are shown, those with the
            lowest correlation; without rows the plot is a note.
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
