"""Options of programs on the place, layout and names of raw files."""

from __future__ import annotations

import argparse

from vrtspike.data.raw.layouts.registry import AUTO, LAYOUTS


def add_raw_files(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe the raw files of a data set."""
    parser.add_argument("--root", required=True, help="folder of the data set")
    parser.add_argument("--spike-root", help="folder of the spikes, if not beside the frames")
    parser.add_argument("--blur-dir", default="blur", help="folder of the blurry frames")
    parser.add_argument("--layout", choices=[AUTO, *LAYOUTS], default=AUTO, help="of the files")
