"""How well spikes and frames of a data set fit together, sequence by sequence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.reporting.evaluations import rows_of

COLUMNS = (
    "split",
    "sequence",
    "exposures",
    "offset",
    "offset_low",
    "offset_high",
    "correlation",
    "correlation_low",
    "correlation_high",
)
"""``offset`` is the found less the expected centre of an exposure in spike steps; it and the
correlation of spikes and sharp frame are medians over a sequence, ``low`` and ``high`` extremes."""


@dataclass(frozen=True)
class Alignment:
    """The alignment of one data set.

    Attributes:
        dataset: its name.
        exposures: frames whose spikes were looked at; 0 for a data set without spikes.
        offset: median of the offset over all of them.
        correlation: median of the correlation over all of them.
        lowest: sequence with the lowest median correlation.
        rows: a row per sequence, as :data:`COLUMNS`.
    """

    dataset: str
    exposures: int
    offset: float | None
    correlation: float | None
    lowest: str
    rows: tuple[tuple[Any, ...], ...]


def read_alignment(path: Path) -> Alignment | None:
    """The alignment of a data set from its table; None where there is no table.

    Args:
        path: ``results/data/<data set>/alignment.csv``.
    """
    if not path.is_file():
        return None
    texts = {"split": str, "sequence": str, "frame": str}
    # A sequence may be called NA or null.
    table = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=[""])
    table["offset"] = table["center"] - table["expected_center"]
    groups = table.groupby(["split", "sequence"], sort=True)
    summary = groups.size().rename("exposures").to_frame()
    for name in ("offset", "correlation"):
        summary[name] = groups[name].median()
        summary[f"{name}_low"] = groups[name].min()
        summary[f"{name}_high"] = groups[name].max()
    summary = summary.reset_index()
    known = summary.dropna(subset=["correlation"]).sort_values("correlation", kind="stable")
    names = known["split"] + "/" + known["sequence"]
    ((offset, correlation),) = rows_of(table[["offset", "correlation"]].median().to_frame().T)
    return Alignment(
        dataset=path.parent.name,
        exposures=len(table),
        offset=offset,
        correlation=correlation,
        lowest="" if names.empty else str(names.iloc[0]),
        rows=tuple(map(tuple, rows_of(summary[list(COLUMNS)]))),
    )
