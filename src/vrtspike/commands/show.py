"""The command ``vrtspike show``: the contents of a spike file."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.commands.sensor_option import add_sensor, sensor_size
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.system.errors import ConfigError
from vrtspike.system.options import add_output, positive_int


def add_show(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="spike file (.dat or .npz)")
    add("--frame", type=Path, help="sharp frame of the same exposure (PNG)")
    add_sensor(parser)
    add("--layout", choices=LAYOUTS, help="of the file, which tells the step that the frame shows")
    add("--start", type=int, default=0, help="first step to look at")
    add("--steps", type=positive_int, help="how many; all, but at most 2000, unless given")
    contents = "folder for the results, or the picture's own name (.png or .svg); here unless given"
    add_output(parser, contents, "OUT")
    add("--video", action="store_true", help="also write a video beside the picture")


def run_show(arguments: argparse.Namespace) -> int:
    """Show what a spike file holds: statistics, a picture, a video of a window that slides over it.

    The sensor's size is that of --sensor, the file, a config.yaml next to it or the layout, else
    half the frame's. With the sharp frame of the exposure the two are compared. The exit
    status is 1 if the steps are shuffled or the spikes do not show the frame.
    """
    from vrtspike.data.spike_file_view import (
        describe_view,
        draw_spikes,
        spike_file_faults,
        view_spike_file,
        write_spike_video,
    )

    picture = arguments.output or Path()
    if picture.is_dir() or not picture.suffix:
        picture /= f"{arguments.file.stem}_spikes.png"
    # The name is checked before the file is read, which may take a while.
    if picture.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(
            f"--output: found {picture}, expected a folder, or a file named *.png or *.svg"
        )
    layout = LAYOUTS.get(arguments.layout)
    sensor = sensor_size(arguments)
    view = view_spike_file(
        arguments.file, sensor, arguments.frame, arguments.start, arguments.steps, layout
    )
    view_faults = spike_file_faults(view)
    print("\n".join([*describe_view(view), *(f"! {fault}" for fault in view_faults)]), flush=True)
    draw_spikes(view, picture)
    print(f"picture: {picture}")
    if arguments.video:
        write_spike_video(view, picture.with_suffix(".mp4"))
        print(f"video: {picture.with_suffix('.mp4')}")
    return 1 if view_faults else 0
