"""Tables as small self-contained HTML pages, for the report and for a browser."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

import pandas as pd

from vrtspike.files import atomic_write_text

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a202c; margin: 1.5em auto; max-width: 72em;
       padding: 0 1em; }
h1 { font-size: 1.25em; margin: 0 0 .3em; } h2 { font-size: 1.05em; margin: 1.6em 0 .3em; }
p { margin: .3em 0 .9em; color: #4a5568; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3em .8em; text-align: right; border-bottom: 1px solid #e2e8f0;
         vertical-align: top; }
th { border-bottom: 2px solid #a0aec0; font-weight: 600; }
td.text, th.text { text-align: left; } tr.strong td { font-weight: 600; background: #f7fafc; }
tbody tr:hover td { background: #edf2f7; } code { background: #edf2f7; padding: 0 .25em; }
""".strip()


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Attributes:
        frame: its rows; column names are the header.
        title: heading above it; empty for none.
        note: a sentence below the heading; empty for none.
        formats: format specification (such as ``.2f``) by column; numbers without one are shown
            as they are.
        strong_rows: positions of rows to set off, such as a mean.
    """

    frame: pd.DataFrame
    title: str = ""
    note: str = ""
    formats: Mapping[str, str] | None = None
    strong_rows: frozenset[int] = frozenset()


def write_page(
    path: str | Path, title: str, note: str, tables: Sequence[Table], closing: Sequence[str] = ()
) -> None:
    """Write tables under one heading as an HTML page without any outside reference, atomically.

    Args:
        path: where to write.
        title: the heading.
        note: a paragraph above the tables; empty for none.
        tables: in order.
        closing: paragraphs below them.
    """
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>\n{_STYLE}\n</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
    ]
    if note:
        parts.append(f"<p>{html.escape(note)}</p>")
    parts += [_table(table) for table in tables]
    parts += [f"<p>{html.escape(paragraph)}</p>" for paragraph in closing]
    parts.append("</body></html>")
    atomic_write_text(path, "\n".join(parts) + "\n")


def _table(table: Table) -> str:
    frame = table.frame
    formats = table.formats or {}
    text = [not pd.api.types.is_numeric_dtype(frame[column]) for column in frame.columns]
    rows = [f"<h2>{html.escape(table.title)}</h2>"] if table.title else []
    if table.note:
        rows.append(f"<p>{html.escape(table.note)}</p>")
    rows.append(
        '<div class="wide"><table><thead>'
        + _row("th", map(str, frame.columns), text)
        + "</thead><tbody>"
    )
    for position, values in enumerate(frame.itertuples(index=False)):
        cells = [
            _cell(value, formats.get(str(column), ""))
            for column, value in zip(frame.columns, values, strict=True)
        ]
        rows.append(_row("td", cells, text, strong=position in table.strong_rows))
    rows.append("</tbody></table></div>")
    return "\n".join(rows)


def _row(tag: str, cells: Iterable[str], text: Sequence[bool], *, strong: bool = False) -> str:
    inside = "".join(
        f"<{tag}{_class('text', left)}>{html.escape(cell)}</{tag}>"
        for cell, left in zip(cells, text, strict=True)
    )
    return f"<tr{_class('strong', strong)}>{inside}</tr>"


def _class(name: str, given: bool) -> str:
    return f' class="{name}"' if given else ""


def _cell(value: object, specification: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NA:
        return "–"
    if specification and isinstance(value, Real):
        return format(value, specification)
    return str(value)
