"""Make a sequence with blurry frames and spikes from a folder of high-frame-rate frames.

Blurry frames are means of successive frames, the sharp frame is the middle one, and spikes come
from an integrate-and-fire sensor at half the frames' resolution, in the Spk-GoPro layout.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.cli import run
from vrtspike.data.progress import progress_bar
from vrtspike.data.simulate_sequence import simulate_folder


def gamma_or_none(text: str) -> float | None:
    """Read the argument of ``--gamma``."""
    return None if text == "none" else float(text)


def main() -> None:
    """Parse the arguments and simulate one sequence."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--frames", type=Path, required=True, help="folder of pictures, in order")
    parser.add_argument("--output", type=Path, required=True, help="folder of the data set")
    parser.add_argument("--split", default="train", help="split of the new sequence")
    parser.add_argument("--sequence", required=True, help="name of the new sequence")
    parser.add_argument(
        "--frames-per-exposure", type=int, default=11, help="frames averaged into a blurry one"
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
    arguments = parser.parse_args()
    folder = arguments.output / arguments.split / arguments.sequence
    with progress_bar(f"simulate {arguments.split}/{arguments.sequence}") as progress:
        written = simulate_folder(
            arguments.frames,
            folder,
            frames_per_exposure=arguments.frames_per_exposure,
            gamma=arguments.gamma,
            steps_per_frame=arguments.steps_per_frame,
            theta=arguments.theta,
            noise=arguments.noise,
            seed=arguments.seed,
            progress=progress,
        )
    print(
        f"{folder}: {written.exposures} exposures from {written.frames_used} frames"
        + (f", {written.frames_left} frames left over" if written.frames_left else "")
    )


if __name__ == "__main__":
    run(main)
