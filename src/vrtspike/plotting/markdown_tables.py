"""Tables in pages of Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from vrtspike.io.files import atomic_write_text
from vrtspike.system.errors import DataError


def update_tables(
    page: Path,
    source: str,
    tables: Mapping[str, str],
    *,
    command: str,
    is_check: bool,
) -> None:
    """Write the generated tables of a page, or reject a page with old ones; print which it was.

    A table follows the line ``<!-- from SOURCE: NAME -->``.

    Args:
        page: path of the page.
        source: name of the file that the tables are made from.
        tables: tables in Markdown by name; the page must have all of them.
        command: command that writes the tables, for the error message.
        is_check: write nothing.

    Raises:
        DataError: if the page lacks a table or names an unknown one; in a check also if a table
            differs.
    """
    marker = re.compile(rf"(?<=<!-- from {re.escape(source)}: )(\w+) -->\n(?:\|.*\n)*")
    text = page.read_text(encoding="utf-8")
    names = marker.findall(text)
    missing = sorted(tables.keys() - set(names))
    if missing:
        raise DataError(
            f"{page}: found no <!-- from {source}: {missing[0]} -->, expected one above each "
            "table; put it back"
        )
    unknown = sorted(set(names) - set(tables))
    if unknown:
        raise DataError(
            f"{page}: found <!-- from {source}: {unknown[0]} -->, expected one of "
            f"{', '.join(tables)}"
        )
    new = marker.sub(lambda match: f"{match[1]} -->\n{tables[match[1]]}", text)
    if new == text:
        print(f"{page}: up to date")
        return
    if is_check:
        raise DataError(f"{page}: older than {source}; run {command}")
    atomic_write_text(page, new)
    print(f"wrote {page}")


def markdown_table(rows: pd.DataFrame, others: str = "---:") -> str:
    """Format a Markdown table.

    Args:
        rows: texts of the cells.
        others: alignment of the columns after the first one, which is left-aligned.
    """
    rule = ["---", *[others] * (len(rows.columns) - 1)]
    lines = [[str(column) for column in rows.columns], rule, *rows.to_numpy().tolist()]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)
