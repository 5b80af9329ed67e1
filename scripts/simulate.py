"""Make sequences with blurry frames and spikes from folders of high-frame-rate frames.

Blurry frames are means of successive frames, the sharp frame is the middle one, and spikes come
from an integrate-and-fire sensor at half the frames' resolution, in the Spk-GoPro layout.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from vrtspike.cli import HelpFormatter, run
from vrtspike.deblurring.data.simulation.sequence import (
    FrameFolder,
    frame_files,
    frame_folders,
    simulate_folder,
)
from vrtspike.errors import DataError, list_faults
from vrtspike.progress_bar import progress_bar

FRAMES_PER_EXPOSURE = 11


def gamma_or_none(text: str) -> float | None:
    """Read the argument of ``--gamma``."""
    return None if text == "none" else float(text)


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
    parser.add_argument("--output", type=Path, required=True, help="folder of the data set")
    parser.add_argument("--split", default="train", help="split of sequences that have none")
    parser.add_argument("--sequence", help="name of the new sequence; default: the folder's name")
    parser.add_argument(
        "--frames-per-exposure",
        type=int,
        help="frames averaged into a blurry one; default: the number in a name such as "
        f"GOPR0372_07_00, else {FRAMES_PER_EXPOSURE}",
    )
    parser.add_argument(
        "--steps-per-frame", type=int, default=8, help="spike steps from one frame to the next"
    )
    parser.add_argument("--theta", type=float, default=2.0, help="firing threshold of the sensor")
    parser.add_argument(
        "--noise", type=float, default=0.0, help="noise of a step, as a share of full scale"
    )
    parser.add_argument(
        "--gamma",
        type=gamma_or_none,
        default=None,
        help="'none' averages coded values into blur/; a number such as 2.2 averages linear light "
        "into blur_gamma/",
    )
    parser.add_argument("--seed", type=int, default=0, help="initial charge and noise")
    parser.add_argument(
        "--downscale", type=int, default=2, help="frame pixels per spike pixel along each side"
    )
    parser.add_argument(
        "--interpolation",
        choices=["linear", "flow"],
        default="linear",
        help="between frames: mix them, or move them by optical flow",
    )
    arguments = parser.parse_args()
    if arguments.source:
        folders = frame_folders(arguments.source, arguments.split)
    else:
        name = arguments.sequence or arguments.frames.resolve().name
        folders = [FrameFolder(arguments.frames, arguments.split, name)]
    # All folders are looked at before the first of them is simulated, which takes long.
    for_each(
        folders,
        lambda folder: frame_files(folder.path),
        "folders that cannot be simulated, nothing was written",
        "Mend these and run again.",
    )
    for_each(
        folders,
        lambda folder: simulate(folder, arguments),
        "folders that could not be simulated",
        "The other folders are done; mend these and run again.",
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
            if len(folders) == 1:
                raise
            faults.append(str(error))
    if faults:
        raise DataError(list_faults(title, faults, advice))


def simulate(source: FrameFolder, arguments: argparse.Namespace) -> None:
    """Simulate one sequence."""
    folder = arguments.output / source.split / source.sequence
    known = source.frames_per_exposure or FRAMES_PER_EXPOSURE
    with progress_bar(f"simulate {source.split}/{source.sequence}") as progress:
        written = simulate_folder(
            source.path,
            folder,
            frames_per_exposure=arguments.frames_per_exposure or known,
            gamma=arguments.gamma,
            steps_per_frame=arguments.steps_per_frame,
            theta=arguments.theta,
            noise=arguments.noise,
            seed=arguments.seed,
            downscale=arguments.downscale,
            interpolation=arguments.interpolation,
            progress=progress,
        )
    print(
        f"{folder}: {written.exposures} exposures from {written.frames_used} frames"
        + (f", {written.frames_left} frames left over" if written.frames_left else "")
    )


if __name__ == "__main__":
    run(main)
