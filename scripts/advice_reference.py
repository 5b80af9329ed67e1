"""Write the table of findings into its page, or check that it is up to date."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from vrtspike.analysis.advice.findings import symptoms
from vrtspike.plotting.pages import markdown_table, update_tables
from vrtspike.system.program import run

PAGE = Path("docs/findings.md")


def main() -> None:
    """Write the table, or refuse a page that is older than ``advice.yaml``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("page", nargs="?", type=Path, default=PAGE, help="that holds the table")
    arguments = parser.parse_args()
    update_tables(
        arguments.page,
        "advice.yaml",
        {"findings": findings_page_table()},
        command=f"scripts/{Path(__file__).name}",
        is_check=arguments.check,
    )


def findings_page_table() -> str:
    """Return the table of all findings, as Markdown; their texts name their limits."""
    columns = ["symptom", "measured", "reported", "cause"]
    entries = map(vars, symptoms().values())
    rows = [[entry[column].format_map(entry) for column in columns] for entry in entries]
    return markdown_table(pd.DataFrame(rows, columns=columns), others="---")


if __name__ == "__main__":
    run(main)
