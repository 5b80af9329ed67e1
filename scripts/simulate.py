"""Make sequences with blurry frames and spikes from folders of high-frame-rate frames.

Blurry frames are means of successive frames, the sharp frame is the middle one, and spikes come
from an integrate-and-fire sensor at half the frames' resolution, in the Spk-GoPro layout. Of pairs
of blurry and sharp videos only the spikes are missing: they are written below a root of their own.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from vrtspike.data.raw.layouts.registry import AUTO, LAYOUTS, find_sequence, frame_faults
from vrtspike.data.raw.layouts.spk_gopro import STEPS_PER_SOURCE_FRAME
from vrtspike.data.raw.survey import survey
from vrtspike.data.simulation.sensor import Simulation
from vrtspike.data.simulation.sequence import (
    FrameFolder,
    frame_files,
    frame_folders,
    simulate_pairs,
    write_sequence,
)
from vrtspike.io.images import read_rgb
from vrtspike.system.cli import HelpFormatter, positive_int, run
from vrtspike.system.errors import ConfigError, DataError, list_faults, named_faults
from vrtspike.system.progress_bar import progress_bar

FRAMES_PER_EXPOSURE = 11
STEPS_OF_PAIRS = 88
SPLITS = ("train", "test")
SENSOR_KEYS = Simulation.model_fields.keys() - {"ROOT", "SEQUENCES"}


def none_or_text(text: str) -> str | None:
    """Read an argument that may be ``none``; the schema reads all else."""
    return None if text in ("none", "null") else text


def option(name: str) -> str:
    """The option of a key."""
    return f"--{name.lower().replace('_', '-')}"


def main() -> None:
    """Parse the arguments and simulate one sequence or many."""
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
        field = Simulation.model_fields[name]
        text = str(field.description)
        parser.add_argument(option(name), type=none_or_text, default=field.default, help=text)
    arguments = parser.parse_args()
    # Refused before anything is read.
    refuse_idle_options(arguments)
    arguments.layout = arguments.layout or AUTO
    if arguments.steps_per_frame is None:
        steps = STEPS_OF_PAIRS if arguments.pairs else STEPS_PER_SOURCE_FRAME
        arguments.steps_per_frame = steps
    sensor = simulation(arguments)
    if arguments.pairs:
        simulate_spikes_of_pairs(arguments, sensor)
        return
    if arguments.source:
        refuse_pairs(arguments.source, SPLITS)
        folders = frame_folders(arguments.source, arguments.split or "train")
    else:
        name = arguments.sequence or arguments.frames.resolve().name
        folders = [FrameFolder(arguments.frames, arguments.split or "train", name)]
    # All folders are looked at before the first of them is simulated, which takes long.
    for_each(
        folders,
        lambda folder: look_at(folder, arguments.output),
        "folders that cannot be simulated, nothing was written",
        "Fix these and run again.",
    )
    for_each(
        folders,
        lambda folder: simulate(folder, arguments, sensor),
        "folders that could not be simulated",
        "The other folders are done; fix these and run again.",
    )


def look_at(source: FrameFolder, output: Path) -> None:
    """Refuse frames that cannot be simulated, or that the results would replace.

    Raises:
        DataError: naming the folder.
    """
    frame_files(source.path)
    folder = output / source.split / source.sequence
    if source.path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{source.path}: --output would replace these frames; give another folder")


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
        given = [option(name) for name in names if getattr(arguments, name) is not None]
        if getattr(arguments, mode) and given:
            words = " and ".join(given)
            raise ConfigError(f"found {words} with {option(mode)}, which changes nothing there")


def refuse_pairs(root: Path, splits: Sequence[str]) -> None:
    """Refuse a data set with blurry frames, which would be taken for sharp ones.

    Raises:
        DataError: naming its layout.
    """
    for split in splits:
        with contextlib.suppress(DataError):  # none of the known ones
            layout = survey(root, [split], "blur")["layout"]
            break
    else:
        return
    raise DataError(
        f"{root}: found blurry frames beside sharp ones (layout {layout}), expected folders of "
        "sharp frames only; the spikes of such a data set are simulated by --pairs"
    )


def for_each(
    folders: Sequence[FrameFolder],
    action: Callable[[FrameFolder], object],
    title: str,
    advice: str,
) -> None:
    """Do something with all folders.

    Raises:
        DataError: at the end, with what went wrong in any of them.
    """
    faults = []
    for folder in folders:
        try:
            action(folder)
        except DataError as error:
            faults.append(f"{folder.path}: {str(error).removeprefix(f'{folder.path}: ')}")
    if faults:
        raise DataError(list_faults(title, faults, advice))


def simulate_spikes_of_pairs(arguments: argparse.Namespace, sensor: Simulation) -> None:
    """Simulate the spikes of all sequences of a data set without any."""
    root = arguments.pairs
    found = survey(root, arguments.splits or SPLITS, "blur", arguments.layout)
    if found["spikes"]:
        raise DataError(f"{root}: has spikes already; expected a data set without any")
    # Of the splits that are looked for unasked, one that has no sound sequence is left out.
    asked = set(arguments.splits or {sequence["split"] for sequence in found["sequences"]})
    left_out = {n: f for n, f in found["excluded"].items() if not {n, n.rpartition("/")[0]} & asked}
    if excluded := named_faults({n: f for n, f in found["excluded"].items() if n not in left_out}):
        advice = "Fix them, or leave a split out (--splits)."
        raise DataError(list_faults(f"{root}: nothing was simulated", excluded, advice))
    for fault in named_faults(left_out):
        print(f"left out: {fault}")
    names = [f"{sequence['split']}/{sequence['name']}" for sequence in found["sequences"]]
    sequences = {name: find_sequence(root, name, "blur", arguments.layout) for name in names}
    # All are looked at before the first of them is simulated, which takes long.
    if faults := named_faults({name: frame_faults(files) for name, files in sequences.items()}):
        raise DataError(list_faults(f"{root}: nothing was simulated", faults, "Fix these."))
    for number, (name, files) in enumerate(sequences.items()):
        folder = arguments.output / name
        with progress_bar(f"simulate {name}") as progress:
            count = simulate_pairs(
                root,
                files,
                folder,
                sensor.model_copy(update={"SEED": sensor.SEED + number}),
                progress=progress,
            )
        print(f"{folder}: spikes of {count} frames")


def simulation(arguments: argparse.Namespace) -> Simulation:
    """The sensor that the options describe, and what it is shown.

    Raises:
        ConfigError: naming options out of their range.
    """
    try:
        return Simulation(**{name: getattr(arguments, name.lower()) for name in SENSOR_KEYS})
    except ValidationError as error:
        faults = (
            ": ".join([*(option(str(name)) for name in each["loc"]), each["msg"]])
            for each in error.errors()
        )
        raise ConfigError("; ".join(faults)) from error


def simulate(source: FrameFolder, arguments: argparse.Namespace, sensor: Simulation) -> None:
    """Simulate one sequence."""
    folder = arguments.output / source.split / source.sequence
    known = source.frames_per_exposure or FRAMES_PER_EXPOSURE
    length = arguments.frames_per_exposure or known
    files = frame_files(source.path)
    with progress_bar(f"simulate {source.split}/{source.sequence}") as progress:
        exposures, left = write_sequence(
            folder,
            map(read_rgb, files),
            frames_per_exposure=length,
            sensor=sensor,
            progress=lambda done: progress(done, len(files)),
        )
    print(
        f"{folder}: {exposures} exposures from {exposures * length} frames"
        + (f", {left} frames left over" if left else "")
    )


if __name__ == "__main__":
    run(main)
