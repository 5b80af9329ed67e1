"""Write the tables of symptoms and cures into the pages, or check that they are up to date."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from vrtspike.analysis.findings import advice
from vrtspike.plotting.pages import markdown_table, update_tables
from vrtspike.system.cli import run

PAGES = tuple(Path("docs") / name for name in ("findings.md", "troubleshooting.md"))


def main() -> None:
    """Write the tables, or refuse pages that are older than ``advice.yaml``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES, help="that hold the tables")
    arguments = parser.parse_args()
    tables = make_tables()
    for page in arguments.pages:
        update_tables(
            page,
            "advice.yaml",
            tables,
            command=f"scripts/{Path(__file__).name}",
            is_check=arguments.check,
        )


def make_tables() -> dict[str, str]:
    """Return the tables of findings and messages by the names of their markers, as Markdown."""
    findings = table(advice()["findings"], ("symptom", "measured", "reported", "cause"))
    messages = {
        name: table(entries, ("symptom", "cure")) for name, entries in advice()["messages"].items()
    }
    return {"findings": findings, **messages}


def table(entries: Sequence[Mapping[str, str]], heads: Sequence[str]) -> str:
    """Format entries of ``advice.yaml`` as a Markdown table.

    Args:
        entries: symptoms, with their causes or cures.
        heads: fields of the entries that are columns.
    """
    # Texts of findings name their limits, others may have braces of their own.
    rows = [
        [entry[head].format_map(entry) if "limit" in entry else entry[head] for head in heads]
        for entry in entries
    ]
    return markdown_table(pd.DataFrame(rows, columns=list(heads)), others="---")


if __name__ == "__main__":
    run(main)
