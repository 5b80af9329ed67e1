"""Make sequences with blurry frames and spikes from folders of high-frame-rate frames.

Blurry frames are means of successive frames, the sharp frame is the middle one, and spikes come
from an integrate-and-fire sensor at half the frames' resolution, in the Spk-GoPro layout. Of pairs
of blurry and sharp videos only the spikes are missing: they are written below a root of their own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pydantic import ValidationError

from vrtspike.data.raw.layouts.registry import AUTO, LAYOUTS
from vrtspike.data.raw.layouts.spk_gopro import STEPS_PER_SOURCE_FRAME
from vrtspike.data.simulation.folders import (
    FRAMES_PER_EXPOSURE,
    refuse_pairs,
    simulate_folders,
    simulate_spikes_of_pairs,
)
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import FrameFolder, frame_folders
from vrtspike.system.cli import HelpFormatter, positive_int, run
from vrtspike.system.errors import ConfigError

STEPS_OF_PAIRS = 88
SENSOR_KEYS = SimulatedSensor.model_fields.keys()


def none_or_text(text: str) -> str | None:
    """Read an argument that may be ``none``; the schema checks other values."""
    return None if text in ("none", "null") else text


def option(name: str) -> str:
    """Return the option of a key."""
    return f"--{name.lower().replace('_', '-')}"


def main() -> None:
    """Parse the arguments and simulate one sequence or many."""
    arguments = _parser().parse_args()
    refuse_idle_options(arguments)
    if arguments.steps_per_frame is None:
        steps = STEPS_OF_PAIRS if arguments.pairs else STEPS_PER_SOURCE_FRAME
        arguments.steps_per_frame = steps
    sensor = simulated_sensor(arguments)
    if arguments.pairs:
        layout = arguments.layout or AUTO
        simulate_spikes_of_pairs(
            arguments.pairs, arguments.output, sensor, arguments.splits, layout
        )
        return
    split = arguments.split or "train"
    if arguments.source:
        refuse_pairs(arguments.source)
        folders = frame_folders(arguments.source, split)
    else:
        name = arguments.sequence or arguments.frames.resolve().name
        folders = [FrameFolder(arguments.frames, split, name)]
    simulate_folders(folders, arguments.output, sensor, arguments.frames_per_exposure)


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
        f"GOPR0372_07_00, else {FRAMES_PER_EXPOSURE}",
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
        parser.add_argument(option(name), type=none_or_text, default=field.default, help=text)
    return parser


def refuse_idle_options(arguments: argparse.Namespace) -> None:
    """Refuse options that would change nothing.

    Raises:
        ConfigError: naming them.
    """
    idle = {
        "frames": ["splits", "layout"],
        "source": ["sequence", "splits", "layout"],
        "pairs": ["sequence", "split", "frames_per_exposure", "gamma"],
    }
    for mode, names in idle.items():
        options = [option(name) for name in names if getattr(arguments, name) is not None]
        if getattr(arguments, mode) and options:
            words = " and ".join(options)
            raise ConfigError(f"found {words} with {option(mode)}, which changes nothing there")


def simulated_sensor(arguments: argparse.Namespace) -> SimulatedSensor:
    """Build the sensor that the options describe.

    Raises:
        ConfigError: naming options out of their range.
    """
    try:
        return SimulatedSensor(**{name: getattr(arguments, name.lower()) for name in SENSOR_KEYS})
    except ValidationError as error:
        faults = []
        for detail in error.errors():
            options = [option(str(name)) for name in detail["loc"]]
            faults.append(": ".join([*options, detail["msg"]]))
        raise ConfigError("; ".join(faults)) from error


if __name__ == "__main__":
    run(main)
