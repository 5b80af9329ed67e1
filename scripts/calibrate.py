"""Calibrate cameras of one's own and resample their recordings: vrtspike calibrate, as a job."""

from __future__ import annotations

import argparse

from vrtspike.commands.calibrate import add_calibrate, run_calibrate
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments, calibrate, and exit with the command's status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    add_calibrate(parser)
    raise SystemExit(run_calibrate(parser.parse_args()))


if __name__ == "__main__":
    run_main(main)
