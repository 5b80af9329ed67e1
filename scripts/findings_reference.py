"""Write the table of all findings into docs/findings.md, or check that it is up to date."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.analysis.diagnosis import with_rules_table
from vrtspike.cli import run
from vrtspike.errors import DataError
from vrtspike.files import atomic_write_text


def main() -> None:
    """Write the table, or refuse one that is older than the rules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument(
        "--page", type=Path, default=Path("docs/findings.md"), help="page that holds the table"
    )
    arguments = parser.parse_args()
    text = arguments.page.read_text(encoding="utf-8")
    new = with_rules_table(text)
    if text == new:
        print(f"{arguments.page}: up to date")
    elif arguments.check:
        raise DataError(f"{arguments.page}: older than the rules; run {Path(__file__).name}")
    else:
        atomic_write_text(arguments.page, new)
        print(f"wrote {arguments.page}")


if __name__ == "__main__":
    run(main)
