"""One HTML file about finished runs: verdict, pictures, metrics, curves, findings, origin."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.reporting.page import write_report_page
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments, write the page, and print its verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument(
        "--results", type=Path, required=True, help="folder of results: train/<preset> and others"
    )
    parser.add_argument(
        "--presets", nargs="+", required=True, metavar="NAME", help="runs to report on"
    )
    parser.add_argument(
        "--preset-dir",
        type=Path,
        default=Path("config/presets"),
        help="folder of the presets, whose BASE settings are compared with",
    )
    parser.add_argument("--output", type=Path, required=True, help="page to write (HTML)")
    arguments = parser.parse_args()
    headline = write_report_page(
        arguments.results, arguments.presets, arguments.preset_dir, arguments.output
    )
    print("\n".join([headline.text, *(() if headline.preset else headline.facts)]))


if __name__ == "__main__":
    run_main(main)
