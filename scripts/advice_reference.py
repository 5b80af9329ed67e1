"""Write the tables of symptoms and cures into the pages, or check that they are up to date."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.analysis.findings import update_tables
from vrtspike.io.files import atomic_write_text
from vrtspike.system.cli import run
from vrtspike.system.errors import DataError

PAGES = tuple(Path("docs") / name for name in ("findings.md", "troubleshooting.md"))


def main() -> None:
    """Write the tables, or refuse pages that are older than ``advice.yaml``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES, help="that hold the tables")
    arguments = parser.parse_args()
    for page in arguments.pages:
        text = page.read_text(encoding="utf-8")
        new = update_tables(text)
        if text == new:
            print(f"{page}: up to date")
        elif arguments.check:
            raise DataError(f"{page}: older than advice.yaml; run {Path(__file__).name}")
        else:
            atomic_write_text(page, new)
            print(f"wrote {page}")


if __name__ == "__main__":
    run(main)
