"""Write the table of findings into its page, or check that it is up to date."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from vrtspike.analysis.diagnosis.findings import SYMPTOMS
from vrtspike.plotting.markdown_tables import markdown_table, update_tables
from vrtspike.system.program import run_main

PAGE = Path("docs/findings.md")


def main() -> None:
    """Write the table, or reject a page that is older than the symptoms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("page", nargs="?", type=Path, default=PAGE, help="that holds the table")
    arguments = parser.parse_args()
    update_tables(
        arguments.page,
        "analysis/diagnosis",
        {"findings": findings_page_table()},
        command=f"scripts/{Path(__file__).name}",
        is_check=arguments.check,
    )


def findings_page_table() -> str:
    """Return the table of all symptoms, as Markdown."""
    columns = ["symptom", "measured", "reported", "cause"]
    rows = [(entry.name, entry.measured, entry.reported, entry.cause) for entry in SYMPTOMS]
    return markdown_table(pd.DataFrame(rows, columns=columns), others="---")


if __name__ == "__main__":
    run_main(main)
