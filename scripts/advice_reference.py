"""Write the tables of symptoms and cures into the pages, or check that they are up to date."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pandas as pd

from vrtspike.analysis.findings import advice
from vrtspike.plotting.pages import markdown_table, update_page
from vrtspike.system.cli import run
from vrtspike.system.errors import DataError

PAGES = tuple(Path("docs") / name for name in ("findings.md", "troubleshooting.md"))
COLUMNS = {"findings": ("symptom", "measured", "reported", "cause")}
MARKER = re.compile(r"(?<=<!-- from advice.yaml: )(\w+) -->\n(?:\|.*\n)*")


def main() -> None:
    """Write the tables, or refuse pages that are older than ``advice.yaml``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES, help="that hold the tables")
    arguments = parser.parse_args()
    for page in arguments.pages:
        text = page.read_text(encoding="utf-8")
        if not MARKER.search(text):
            raise DataError(
                f"{page}: no <!-- from advice.yaml: NAME --> in it; expected one above each table"
            )
        new = MARKER.sub(lambda match: f"{match[1]} -->\n{table(match[1])}", text)
        cause = f"older than advice.yaml; run {Path(__file__).name}"
        update_page(page, text, new, is_check=arguments.check, cause=cause)


def table(name: str) -> str:
    """Format the entries of a section as a Markdown table.

    Raises:
        DataError: if there is no such section.
    """
    entries = advice().get(name) or advice()["messages"].get(name)
    if entries is None:
        raise DataError(f"<!-- from advice.yaml: {name} -->: there is no section of this name")
    heads = COLUMNS.get(name, ("symptom", "cure"))
    # Texts of findings name their limits, others may have braces of their own.
    rows = [
        [entry[head].format_map(entry) if "limit" in entry else entry[head] for head in heads]
        for entry in entries
    ]
    return markdown_table(pd.DataFrame(rows, columns=heads), others="---")


if __name__ == "__main__":
    run(main)
