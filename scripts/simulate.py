"""Make sequences with blurry frames and spikes from folders of high-frame-rate frames.

Blurry frames are means of successive frames, the sharp frame is the middle one, and spikes come
from an integrate-and-fire sensor at half the frames' resolution, in the Spk-GoPro layout. Of pairs
of blurry and sharp videos only the spikes are missing: they are written below a root of their own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.data.data_source import AUTO
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.data.raw.layouts.spk_gopro import STEPS_PER_SOURCE_FRAME
from vrtspike.data.simulation.folders import (
    DEFAULT_FRAMES_PER_EXPOSURE,
    STEPS_OF_PAIRS,
    option_name,
    simulate,
)
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.system.options import HelpFormatter, positive_int
from vrtspike.system.program import run_main

SENSOR_KEYS = SimulatedSensor.model_fields.keys()


def none_or_text(text: str) -> str | None:
    """Read an argument that may be ``none``; the schema checks other values."""
    return None if text in ("none", "null") else text


def main() -> None:
    """Parse the arguments and simulate one sequence or many."""
    arguments = vars(_parser().parse_args())
    sensor = {key: arguments.pop(key.lower()) for key in SENSOR_KEYS}
    simulate(sensor=sensor, **arguments)


def _parser() -> argparse.ArgumentParser:
    """Build the parser of the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--frames", type=Path, help="folder of pictures, in order")
    source.add_argument(
        "--source",
        type=Path,
        help="folder with many such folders below it (GOPRO_Large_all, X4K1000FPS, any other): "
        "each becomes a sequence",
    )
    source.add_argument(
        "--pairs",
        type=Path,
        help="data set with blurry and sharp frames; --output is then what DATA.SPIKE_ROOT names",
    )
    parser.add_argument(
        "--splits", nargs="+", help="those of a data set of pairs; default: train and test if there"
    )
    parser.add_argument("--layout", choices=[AUTO, *LAYOUTS], help=f"of the pairs; default: {AUTO}")
    parser.add_argument("--output", type=Path, required=True, help="folder of the data set")
    parser.add_argument("--split", help="split of sequences that have none; default: train")
    parser.add_argument(
        "--sequence", help="with --frames: name of the new sequence; default: the folder's name"
    )
    parser.add_argument(
        "--frames-per-exposure",
        type=positive_int,
        help="frames averaged into a blurry one; default: the number in a name such as "
        f"GOPR0372_07_00, else {DEFAULT_FRAMES_PER_EXPOSURE}",
    )
    parser.add_argument(
        "--steps-per-frame",
        help="spike steps from one frame to the next; default: "
        f"{STEPS_PER_SOURCE_FRAME}, {STEPS_OF_PAIRS} of pairs",
    )
    parser.add_argument(
        "--gamma",
        type=none_or_text,
        help="'none' averages coded values into blur/; a number such as 2.2 averages linear light "
        "into blur_gamma/",
    )
    parser.add_argument(
        "--interpolation",
        choices=["linear", "flow"],
        default="linear",
        help="between frames: mix them, or move them by optical flow",
    )
    for name in sorted(SENSOR_KEYS - {"STEPS_PER_FRAME", "GAMMA", "INTERPOLATION"}):
        field = SimulatedSensor.model_fields[name]
        text = str(field.description)
        parser.add_argument(option_name(name), type=none_or_text, default=field.default, help=text)
    return parser


if __name__ == "__main__":
    run_main(main)
