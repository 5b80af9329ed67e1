"""The comparison of runs as text for a terminal, as CSV and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

import pandas as pd

from vrtspike.analysis.compare import (
    ABSENT,
    Candidate,
    comparison_formats,
    comparison_table,
    evaluations_note,
    metrics_of,
    setting_differences,
)
from vrtspike.analysis.evaluations import quality_note

Format = Literal["text", "csv", "markdown"]
FORMATS: tuple[Format, ...] = get_args(Format)


def comparison_text(candidates: Sequence[Candidate], kind: Format) -> str:
    """Runs side by side.

    Args:
        candidates: the runs.
        kind: ``csv`` has a row for each run and nothing else, the others a column for each, and
            below the settings that differ.
    """
    metrics = metrics_of(candidates)
    table = comparison_table(candidates, metrics)
    if kind == "csv":
        return table.to_csv(index=False, float_format="%.6g")
    rows = _shown(table, comparison_formats(metrics))
    differences = setting_differences([candidate.run for candidate in candidates])
    draw: Callable[[pd.DataFrame], str] = _markdown if kind == "markdown" else _aligned
    parts = [draw(rows)]
    if len(candidates) > 1:
        same = "The settings of all runs are the same.\n"
        parts.append(same if differences.empty else draw(differences.astype(str)))
    if metrics:
        note = f"{quality_note(metrics)} {evaluations_note(candidates)}"
        parts.append(f"{note.strip()}\n")
    return "\n".join(parts)


def _shown(table: pd.DataFrame, formats: Mapping[str, str]) -> pd.DataFrame:
    """A row for each figure that any run has, a column for each run, all as text."""
    names = list(table["preset"])
    figures = [c for c in table.columns if c != "preset" and table[c].notna().any()]
    cells = {
        name: [_cell(table[figure].iloc[number], formats.get(figure, "")) for figure in figures]
        for number, name in enumerate(names)
    }
    return pd.DataFrame({"figure": figures} | cells)


def _cell(value: float, specification: str) -> str:
    return ABSENT if pd.isna(value) or math.isnan(value) else format(value, specification)


def _aligned(rows: pd.DataFrame) -> str:
    """Columns of equal width, the first to the left, the others to the right."""
    lines = [[str(column) for column in rows.columns], *rows.to_numpy().tolist()]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return "".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() + "\n"
        for line in lines
    )


def _markdown(rows: pd.DataFrame) -> str:
    rule = ["---", *["---:"] * (len(rows.columns) - 1)]
    lines = [[str(column) for column in rows.columns], rule, *rows.to_numpy().tolist()]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)
