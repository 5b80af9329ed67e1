"""Tell why stages would run, and what they cost last time.

One line per stage that `snakemake TARGET` would run: why it is stale, and what it cost last time.
Trained presets whose code has changed are named, too. Nothing is run. Options of snakemake follow
the targets: vrtspike why all --configfile my.yaml
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "targets", nargs=argparse.REMAINDER, metavar="TARGET", help="without any: all"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print a line per stage."""
    from vrtspike.planning.why import print_stages

    print_stages(arguments.targets)
