"""Tables as self-contained HTML pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path

import pandas as pd

from vrtspike.io.files import atomic_write_text
from vrtspike.io.flatten import ABSENT
from vrtspike.plotting.templates import TEMPLATES

NOTE = "note"
"""Column with sentences, which would make a table too wide for a page."""


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Attributes:
        frame: rows of the table; column names are the header.
        title: heading above it; empty for none.
        note: a sentence below the heading; empty for none.
        formats: format specification (such as ``.2f``) by column; numbers without a format are
            shown unchanged.
        strong_rows: indices of rows in bold, such as a mean.
        best: (row, column) indices of cells in bold.
        second: (row, column) indices of underlined cells.
        lines: notes below the table, as a list.
    """

    frame: pd.DataFrame
    title: str = ""
    note: str = ""
    formats: Mapping[str, str] | None = None
    strong_rows: frozenset[int] = frozenset()
    best: frozenset[tuple[int, int]] = frozenset()
    second: frozenset[tuple[int, int]] = frozenset()
    lines: Sequence[str] = ()

    @property
    def are_texts(self) -> list[bool]:
        """For each column, True if it contains texts, which are left-aligned."""
        return [not pd.api.types.is_numeric_dtype(kind) for kind in self.frame.dtypes]

    @property
    def rows(self) -> Iterator[list[str]]:
        """The formatted cells of each row."""
        yield from table_texts(self.frame, self.formats or {}).to_numpy().tolist()


def write_page(
    path: str | Path, title: str, note: str, tables: Sequence[Table], closing: Sequence[str] = ()
) -> None:
    """Write tables under one heading as a self-contained HTML page.

    In notes and paragraphs, words in backticks are shown as code, and addresses are links.

    Args:
        path: file of the page.
        title: title and first heading.
        note: a paragraph above the tables; empty for none.
        tables: tables in their order.
        closing: paragraphs below them.
    """
    template = TEMPLATES.get_template("plotting/pages.html")
    text = template.render(title=title, note=note, tables=tables, closing=closing)
    atomic_write_text(path, text)


def write_tables(
    folder: Path, title: str, note: str, tables: Sequence[Table], closing: Sequence[str] = ()
) -> None:
    """Write ``table.html``, a page of :func:`write_page`, and its first table as ``table.csv``.

    A column ``note`` is in the CSV file alone: the page has its texts below the tables, unless its
    own note has them.
    """
    first, *others = tables
    atomic_write_text(folder / "table.csv", first.frame.to_csv(index=False, float_format="%.6g"))
    if NOTE in first.frame:
        closing = [*closing, *(line for line in note_lines(first.frame) if line not in note)]
        first = replace(first, frame=first.frame.drop(columns=NOTE))
    write_page(folder / "table.html", title, note, [first, *others], closing)


def note_lines(frame: pd.DataFrame) -> list[str]:
    """Return the texts of the column ``note``, each once with the names in the first column.

    >>> note_lines(pd.DataFrame({"preset": ["a", "b", "c"], "note": ["short", "", "short"]}))
    ['a, c: short.']
    """
    names: dict[str, list[str]] = {}
    for name, note in zip(frame.iloc[:, 0], frame[NOTE], strict=True):
        if isinstance(note, str) and note:
            names.setdefault(note, []).append(str(name))
    return [f"{', '.join(group)}: {note}." for note, group in names.items()]


def table_texts(
    frame: pd.DataFrame, formats: Mapping[str, str], absent: str = ABSENT
) -> pd.DataFrame:
    """Format the cells of a table as texts.

    Args:
        frame: rows of the table.
        formats: format specification (such as ``.2f``) of numbers by column.
        absent: the text of missing values.
    """

    def text(value: object, specification: str) -> str:
        if value is None or value is pd.NA or value != value:
            return absent
        if isinstance(value, Real):
            return format(value, specification)
        return str(value)

    cells = {
        str(name): [text(value, formats.get(str(name), "")) for value in column]
        for name, column in frame.to_dict("list").items()
    }
    return pd.DataFrame(cells, dtype=object)
