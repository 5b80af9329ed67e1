"""The alignment of spikes and frames, in the section of the report page on the data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vrtspike.reporting.page_data import TableRow
from vrtspike.reporting.report_data import DataPart, Dot, DotPlot
from vrtspike.reporting.run_quality import json_rows, read_table

_MISSING = "Nothing can be said: these sequences do not move enough."
_NOTE = "A dot is the median of a sequence, the line reaches from its lowest to its highest frame."


@dataclass(frozen=True)
class AlignmentOfDataset:
    """The alignment of a data set; medians are None without measured exposures.

    Attributes:
        dataset: name of the data set.
        exposures: number of aligned frames, 0 without spikes.
        offset: median of the measured less the expected centre of an exposure, in spike steps.
        correlation: median correlation of spikes and sharp frame.
        rows: a row for each sequence: ``split``, ``sequence``, ``exposures``, and the medians of
            ``offset`` and ``correlation`` with their extremes ``_low`` and ``_high``.
    """

    dataset: str
    exposures: int
    offset: float | None
    correlation: float | None
    rows: list[TableRow]


def read_alignment(path: Path) -> AlignmentOfDataset | None:
    """Read the alignment of a data set from its table; None without a table.

    Args:
        path: ``results/data/<data set>/alignment.csv``.
    """
    if not path.is_file():
        return None
    table = read_table(path, "prepare the data again")
    table["offset"] = table["center"] - table["expected_center"]
    aggregations = {"exposures": ("frame", "size")}
    for name in ("offset", "correlation"):
        aggregations[name] = (name, "median")
        aggregations[f"{name}_low"] = (name, "min")
        aggregations[f"{name}_high"] = (name, "max")
    groups = table.groupby(["split", "sequence"], as_index=False)
    sequences = groups.agg(**aggregations)
    (medians,) = json_rows(table[["offset", "correlation"]].median().to_frame().T)
    return AlignmentOfDataset(
        dataset=path.parent.name,
        exposures=len(table),
        offset=medians["offset"],
        correlation=medians["correlation"],
        rows=json_rows(sequences),
    )


def alignment_part(alignment: AlignmentOfDataset) -> DataPart:
    """Return the alignment of a data set in words and plots."""
    part: DataPart = {
        "title": alignment.dataset,
        "text": alignment_text(alignment),
        "is_missing": False,
        "plots": [],
        "note": "",
    }
    if not alignment.exposures:
        return part
    rows = alignment.rows
    part["plots"] = [
        _plot("Correlation of spikes and sharp frame", "correlation", rows, "correlation"),
        _plot("Found less expected centre of the exposure", "spike steps", rows, "offset"),
    ]
    part["note"] = _NOTE
    return part


def _plot(title: str, axis: str, rows: list[TableRow], column: str) -> DotPlot:
    """Return a plot of a column of the sequences."""
    dots: list[Dot] = [
        {
            "label": f"{row['split']}/{row['sequence']}",
            "value": row[column],
            "low": row[f"{column}_low"],
            "high": row[f"{column}_high"],
        }
        for row in rows
    ]
    return {"title": title, "axis": axis, "missing": _MISSING, "dots": dots}


def alignment_text(alignment: AlignmentOfDataset) -> str:
    """Return the alignment of a data set in sentences."""
    if not alignment.exposures:
        return f"{alignment.dataset} has no spikes."
    if alignment.correlation is None:
        return f"{alignment.exposures} exposures; nothing can be said about their alignment."
    measured = [row for row in alignment.rows if row["correlation"] is not None]
    lowest = min(measured, key=lambda row: float(row["correlation"]))
    return (
        f"{alignment.exposures} exposures: spikes and sharp frame correlate by "
        f"{_decimal(alignment.correlation, 3)} (median); the sequence with the lowest is "
        f"{lowest['split']}/{lowest['sequence']}. The sharp frame is the middle one of its "
        f"exposure{_offset_text(alignment.offset)}."
    )


def _offset_text(offset: float | None) -> str:
    """Return the median offset in words; empty if it is unknown."""
    if offset is None:
        return ""
    side = "before" if offset < 0 else "after"
    return f", found {abs(offset):.2f} spike steps {side} its expected place (median)"


def _decimal(value: float, decimals: int) -> str:
    """Return a number with a typographic minus, as the page's scripts show it.

    >>> _decimal(-0.25, 3), _decimal(-0.0001, 3)
    ('−0.250', '0.000')
    """
    text = f"{abs(value):.{decimals}f}"
    return f"−{text}" if value < 0 and float(text) else text
