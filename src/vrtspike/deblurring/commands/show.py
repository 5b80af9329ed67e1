"""Show what a spike file holds: figures, a picture, and a video of a window that slides over it.

The sensor's size is taken from the file or a config.yaml beside it, else guessed from the spikes.
With the sharp frame of the exposure the two are compared. The exit status is 1 if the steps are
shuffled or the spikes do not show the frame.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.cli import positive_int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument("file", type=Path, metavar="FILE", help="spike file (.dat or .npz)")
    parser.add_argument("--frame", type=Path, help="sharp frame of the same exposure (PNG)")
    parser.add_argument(
        "--sensor",
        type=positive_int,
        nargs=2,
        metavar=("ROWS", "COLUMNS"),
        help="of the sensor as in the file; found by itself unless given",
    )
    parser.add_argument("--start", type=int, default=0, help="first step to look at")
    parser.add_argument(
        "--steps", type=positive_int, help="how many; all, but at most 2000, unless given"
    )
    parser.add_argument(
        "-o", "--output", type=Path, help="picture to write; <name>_spikes.png here unless given"
    )
    parser.add_argument(
        "--video",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="MP4",
        help="also write a video; <name>_spikes.mp4 beside the picture unless named",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the figures, then write picture and video; 1 if something is wrong with them.

    Raises:
        ConfigError: if picture or video have a name that cannot be.
        DataError: if a file cannot be read or files do not fit together.
    """
    from vrtspike.deblurring.analysis.spike_view import (
        describe,
        draw_spikes,
        faults,
        film_spikes,
        view_spikes,
    )

    picture = arguments.output or Path(f"{arguments.file.stem}_spikes.png")
    video = arguments.video
    if video is not None and not video.name:
        video = picture.with_suffix(".mp4")
    # Before the file is read, which may take a while.
    _require_suffix("--output", picture, (".png", ".svg"))
    if video is not None:
        _require_suffix("--video", video, (".mp4",))
    sensor = tuple(arguments.sensor) if arguments.sensor else None
    view = view_spikes(arguments.file, sensor, arguments.frame, arguments.start, arguments.steps)
    wrong = faults(view)
    print("\n".join([*describe(view), *(f"! {fault}" for fault in wrong)]), flush=True)
    draw_spikes(view, picture)
    print(f"picture: {picture}")
    if video is not None:
        film_spikes(view, video)
        print(f"video: {video}")
    return 1 if wrong else 0


def _require_suffix(option: str, path: Path, suffixes: tuple[str, ...]) -> None:
    from vrtspike.errors import ConfigError

    if path.suffix not in suffixes or path.is_dir():
        raise ConfigError(f"{option}: found {path}, expected a file {' or '.join(suffixes)}")
