"""Write the tables of public data sets into docs/datasets.md, or check that they are up to date."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pandas as pd

from vrtspike.commands.public_sets.table import PublicSet, read_public_sets
from vrtspike.plotting.markdown_tables import markdown_table, update_tables
from vrtspike.system.program import run_main

PAGE = Path("docs/datasets.md")


def main() -> None:
    """Write the tables, or reject a page that is older than ``public_sets.toml``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("page", nargs="?", type=Path, default=PAGE, help="that holds the tables")
    arguments = parser.parse_args()
    tables = make_tables(read_public_sets())
    update_tables(
        arguments.page,
        "public_sets.toml",
        tables,
        command=f"scripts/{Path(__file__).name}",
        is_check=arguments.check,
    )


def make_tables(sets: list[PublicSet]) -> dict[str, str]:
    """Return the tables of the page by the names of their markers, as Markdown."""
    sources = pd.DataFrame(
        {
            "set": [entry.name for entry in sets],
            "source": [f"<{entry.source}>" for entry in sets],
            "size": [entry.size for entry in sets],
            "licence": [entry.licence for entry in sets],
            "checksum": [entry.checksum for entry in sets],
        }
    )
    folders = pd.DataFrame(
        {
            "set": [entry.name for entry in sets],
            "`DATA.LAYOUT`": [_code(entry.layouts) for entry in sets],
            "files": [f"`{entry.folders}`" for entry in sets],
            "spikes": ["yes" if entry.has_spikes else "no" for entry in sets],
            "contents": [entry.counts for entry in sets],
        }
    )
    rows = [(entry.name, fact, page) for entry in sets for fact, page in entry.origins.items()]
    origins = pd.DataFrame(rows, columns=["set", "fact", "seen"])
    origins["seen"] = origins["seen"].map(_linked)
    tables = {"sources": sources, "folders": folders, "origins": origins}
    return {name: markdown_table(table, others="---") for name, table in tables.items()}


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _linked(text: str) -> str:
    """Return a text whose public addresses and pages of ``docs/`` are links."""
    text = re.sub(r"https://[^\s,;]*[^\s,;:]", r"<\g<0>>", text)
    return re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text)


if __name__ == "__main__":
    run_main(main)
