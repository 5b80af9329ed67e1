"""The alignment of spikes and frames, in the section of the report page on the data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import pandas as pd

from vrtspike.reporting.evaluation_data import json_rows, read_table
from vrtspike.reporting.page_data import DataPart, Dot, DotPlot

_MISSING = "Nothing can be said: these sequences do not move enough."
_NOTE = "A dot is the median of a sequence, the line reaches from its lowest to its highest frame."


def alignment_part(path: Path) -> DataPart | None:
    """Describe the alignment of a data set in sentences and plots; None without a table.

    Args:
        path: ``results/data/<data set>/alignment.csv``.

    Raises:
        RunError: if the table is damaged.
    """
    if not path.is_file():
        return None
    table = read_table(path, "prepare the data again")
    # In spike steps: the measured less the expected centre of an exposure.
    table["offset"] = table["center"] - table["expected_center"]
    plots = []
    if len(table):
        plots = [
            _plot(table, "correlation", "Correlation of spikes and sharp frame", "correlation"),
            _plot(table, "offset", "Found less expected centre of the exposure", "spike steps"),
        ]
    return {
        "title": path.parent.name,
        "text": _text(table, path.parent.name),
        "is_missing": False,
        "plots": plots,
        "note": _NOTE if plots else "",
    }


def _plot(table: pd.DataFrame, column: str, title: str, axis: str) -> DotPlot:
    """Return a plot of a column, with a dot for each sequence."""
    sequences = table.groupby(["split", "sequence"], as_index=False)
    dots = sequences.agg(value=(column, "median"), low=(column, "min"), high=(column, "max"))
    dots.insert(0, "label", dots.pop("split") + "/" + dots.pop("sequence"))
    return {
        "title": title,
        "axis": axis,
        "missing": _MISSING,
        "dots": cast("list[Dot]", json_rows(dots)),
    }


def _text(table: pd.DataFrame, dataset_name: str) -> str:
    """Return the alignment of a data set in sentences."""
    if table.empty:
        return f"{dataset_name} has no spikes."
    offset, correlation = table[["offset", "correlation"]].median()
    if math.isnan(correlation):
        return f"{len(table)} exposures; nothing can be said about their alignment."
    sequences = table.groupby(["split", "sequence"], as_index=False)["correlation"].median()
    lowest = sequences.loc[sequences["correlation"].idxmin()]
    # With a typographic minus, as the page's scripts show it.
    shown = f"{correlation:z.3f}".replace("-", "−")
    offset_text = ""
    if not math.isnan(offset):
        side = "before" if offset < 0 else "after"
        offset_text = f", found {abs(offset):.2f} spike steps {side} its expected place (median)"
    return (
        f"{len(table)} exposures: spikes and sharp frame correlate by {shown} (median); the "
        f"sequence with the lowest is {lowest['split']}/{lowest['sequence']}. The sharp frame is "
        f"the middle one of its exposure{offset_text}."
    )
