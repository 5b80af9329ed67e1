"""Download the published weights of a pretrained backbone and verify their SHA-256."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.io.backbone_weights import PUBLISHED, SOURCE, fetch_weights
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments, fetch and verify."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        help=f"where to write the file; its name is one of {', '.join(PUBLISHED)}",
    )
    parser.add_argument("--source", default=SOURCE, help="address of the folder it comes from")
    arguments = parser.parse_args()
    fetch_weights(arguments.output, arguments.source)
    print(f"{arguments.output}: fetched and verified")


if __name__ == "__main__":
    run_main(main)
