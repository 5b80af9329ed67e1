"""The option for the size of a spike sensor."""

from __future__ import annotations

import argparse

from vrtspike.system.options import positive_int


def add_sensor(parser: argparse.ArgumentParser) -> None:
    """Add ``--sensor``, the size of the spike sensor."""
    parser.add_argument(
        "--sensor",
        type=positive_int,
        nargs=2,
        metavar=("ROWS", "COLUMNS"),
        help="of the sensor as in the files, where neither .npz files nor a config.yaml beside "
        "them tell",
    )


def sensor_size(arguments: argparse.Namespace) -> tuple[int, int] | None:
    """Return the rows and columns of ``--sensor``; None without it."""
    if arguments.sensor is None:
        return None
    rows, columns = arguments.sensor
    return rows, columns
