"""Write config/README.md and config/schema.json from the schema, or check that they are current."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike import cli
from vrtspike.config.reference import preset_json_schema, reference_page
from vrtspike.errors import ConfigError
from vrtspike.files import atomic_write_text


def main() -> None:
    """Parse the arguments and write or compare the two files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when out of date")
    parser.add_argument("--folder", type=Path, default=Path("config"), help="default: config")
    arguments = parser.parse_args()
    pages = {"README.md": reference_page(), "schema.json": preset_json_schema()}
    for name, text in pages.items():
        path = arguments.folder / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if arguments.check:
            raise ConfigError(f"{path} is out of date; run: python scripts/config_reference.py")
        atomic_write_text(path, text)
        print(f"wrote {path}")


if __name__ == "__main__":
    cli.run(main)
