"""The command ``vrtspike calibrate``, which the stage ``calibrate`` also runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.commands.sensor_option import add_sensor, sensor_size
from vrtspike.system.options import add_output, positive_int


def add_calibrate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("--static", type=Path, required=True, metavar="SCENE", help="in which nothing moves")
    add("--moving", type=Path, metavar="SCENE", help="in which much moves")
    add_sensor(parser)
    parser.add_argument(
        "--max-steps",
        type=positive_int,
        default=200,
        metavar="STEPS",
        help="of a time offset, either way",
    )
    add(
        "--data",
        type=Path,
        help="data set that is to be resampled: <split>/<sequence>/ as a moving scene, sharp/ too",
    )
    contents = "folder for calibration.json, calibration.png and the resampled data set"
    add_output(parser, contents, "OUT", required=True)


def run_calibrate(arguments: argparse.Namespace) -> int:
    """Find the homography and the time offset between your own camera and a spike sensor.

    SCENE folders hold blur/* and spike.dat; a moving one also exposures.csv. A static scene gives
    the homography between two cameras side by side, a moving one the time offset. The result is
    written with its residual error and a picture. The exit status is 1 if it is not good enough.
    """
    from vrtspike.data.calibration.cameras import calibrate_camera, save_calibration
    from vrtspike.data.calibration.resampling import resample

    result, picture = calibrate_camera(
        arguments.static, arguments.moving, sensor_size(arguments), arguments.max_steps
    )
    save_calibration(arguments.output, result, picture)
    print(f"homography: {result.residual_pixels:.2f} sensor pixels of residual error")
    if result.offset is not None:
        steps, error, correlation = result.offset
        spread = " (a single frame, error unknown)" if error is None else f" +- {error:.2f}"
        print(f"time offset: {steps:+.2f}{spread} steps, correlation {correlation:.2f}")
    else:
        print("time offset: not measured (--moving), exposures are used as given")
    print(f"picture: {arguments.output / 'calibration.png'}")
    for fault in result.faults:
        print(f"! {fault}")
    if result.faults:
        return 1
    if arguments.data:
        for folder in resample(result, arguments.data, arguments.output):
            print(f"resampled: {folder}")
    return 0
