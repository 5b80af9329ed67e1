"""Draw the rules of the workflow: docs/images/workflow.svg, with Chinese words workflow.zh.svg.

Snakemake knows all of them once the demo has been made:

    snakemake --rulegraph dot --config "PRESETS=[demo]" -- report \\
        | python scripts/workflow_picture.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from vrtspike.cli import run
from vrtspike.errors import UserError
from vrtspike.files import atomic_write_text
from vrtspike.planning.pictures import workflow_pictures


def main() -> None:
    """Parse the arguments and write the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", type=Path, default=Path("docs/images"), help="folder of the pictures"
    )
    arguments = parser.parse_args()
    try:
        pictures = workflow_pictures(sys.stdin.read())
    except ValueError as error:
        raise UserError(f"standard input: {error}") from error
    for name, text in pictures.items():
        atomic_write_text(arguments.output / name, text)
        print(f"wrote {arguments.output / name}")


if __name__ == "__main__":
    run(main)
