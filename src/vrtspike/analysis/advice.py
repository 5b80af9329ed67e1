"""Symptoms, causes and cures (``advice.yaml``), and tables of them in the documentation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from ruamel.yaml import YAML

from vrtspike.errors import DataError

_COLUMNS = {"findings": ("symptom", "measured", "reported", "cause")}
_MARKER = re.compile(r"(?<=<!-- from advice.yaml: )(\w+) -->\n(?:\|.*\n)*")


@cache
def advice() -> Mapping[str, Any]:
    """The contents of ``advice.yaml``."""
    text = files(__package__).joinpath("advice.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = YAML(typ="safe").load(text)
    return found


def update_tables(page: str) -> str:
    """A Markdown page with the tables after ``<!-- from advice.yaml: NAME -->`` updated.

    Raises:
        DataError: if the page has no such comment, or names an unknown section.
    """
    if not _MARKER.search(page):
        raise DataError("no <!-- from advice.yaml: NAME --> in it; expected one above each table")
    return _MARKER.sub(lambda match: f"{match[1]} -->\n{_table(match[1])}", page)


def _table(name: str) -> str:
    entries = advice().get(name) or advice()["messages"].get(name)
    if entries is None:
        raise DataError(f"<!-- from advice.yaml: {name} -->: there is no section of this name")
    heads = _COLUMNS.get(name, ("symptom", "cure"))
    if isinstance(entries, Mapping):
        entries = entries.values()
    rows = [[_cell(entry[head], entry.get("limit")) for head in heads] for entry in entries]
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(heads)}", *lines[1:]]) + "\n"


def _cell(text: str, limit: Mapping[str, float] | None) -> str:
    return (text if limit is None else text.format(limit=limit)).replace("|", "\\|")
