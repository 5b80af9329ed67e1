"""Write the generated files of the configuration, or check that they are up to date.

These are config/README.md, the same page in Chinese (docs/zh/configuration.md), config/schema.json,
and a list of what is missing in Chinese (docs/zh/missing.md), which is not checked.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.config.reference import preset_json_schema, reference_page
from vrtspike.config.translations import chinese, missing_page
from vrtspike.io.files import atomic_write_text
from vrtspike.system.errors import ConfigError
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main

PROJECT = Path(__file__).parents[1]


def main() -> None:
    """Parse the arguments and write or compare the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when out of date")
    arguments = parser.parse_args()
    pages = {
        "config/README.md": reference_page(),
        "docs/zh/configuration.md": reference_page(chinese),
        "config/schema.json": preset_json_schema(),
    }
    for name, text in pages.items():
        _write(PROJECT / name, text, check=arguments.check)
    if not arguments.check:  # what is not translated yet is not a fault
        _write(PROJECT / "docs/zh/missing.md", missing_page(PROJECT), check=False)


def _write(path: Path, text: str, *, check: bool) -> None:
    """Write a file if it is out of date, or raise with ``check``."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    if check:
        raise ConfigError(f"{path} is out of date; run: python scripts/config_reference.py")
    atomic_write_text(path, text)
    print(f"wrote {path}", flush=True)


if __name__ == "__main__":
    run_main(main)
