"""Restore blurry frames or a video with a trained model.

RUN is the result folder of a finished run, where weights, settings and the statistics of spikes
lie together. Restored frames are written as PNG into OUT/restored. A call that was stopped goes on
where it stopped when it is repeated. Spikes are recorded or simulated; a model that was trained
without them takes none.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from vrtspike.cli import EXIT_STOPPED, positive_int, positive_number
from vrtspike.evaluation.device import DEVICE_NAMES, PRECISIONS

_PATIENCE_S = 30.0
"""For a GPU that may be about to be free; a person who waits can choose the CPU."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    add = parser.add_argument
    add("folder", type=Path, metavar="RUN", help="result folder, such as results/train/demo")
    add("input", type=Path, metavar="INPUT", help="folder of blurry frames, or a video file")
    add("-o", "--output", type=Path, required=True, metavar="OUT", help="folder for the results")
    spikes = parser.add_mutually_exclusive_group()
    spikes.add_argument(
        "--spikes",
        type=Path,
        metavar="PATH",
        help="folder of .dat or .npz files named as the frames (of a video: 000001, 000002 ...), "
        "or one file for all",
    )
    spikes.add_argument(
        "--simulate-spikes",
        action="store_true",
        help="simulate spikes from the blurry frames; they add no information",
    )
    add(
        "--sensor",
        type=positive_int,
        nargs=2,
        metavar=("ROWS", "COLUMNS"),
        help="size of the spike sensor; without it that of .npz files, else half the frames' size",
    )
    add("--sharp", type=Path, metavar="FOLDER", help="sharp frames of the same names, to compare")
    add("--video", action="store_true", help="write OUT/restored.mp4 (H.264), too")
    add(
        "--side-by-side",
        action="store_true",
        help="write OUT/side_by_side.mp4, too: blurry, restored and sharp where there is one",
    )
    add("--pictures", action="store_true", help="write OUT/comparison/<frame>.png, too")
    add(
        "--fps",
        type=positive_number,
        help="frames per second of videos; without it the input's, else 24",
    )
    add(
        "--tile",
        type=int,
        metavar="PIXELS",
        help="largest side of a tile, 0 for whole frames; without it as the free memory allows",
    )
    add("--device", choices=DEVICE_NAMES, default="auto", help="where to compute")
    add(
        "--precision",
        choices=PRECISIONS,
        default="auto",
        help="type of matrix products; auto: float32 on a CPU, a half type on a GPU",
    )
    add("--anew", action="store_true", help="replace what an earlier call has left in OUT")


def run(arguments: argparse.Namespace) -> int:
    """Restore, and tell what was done."""
    from vrtspike.errors import ConfigError

    if arguments.simulate_spikes and arguments.sensor is not None:
        raise ConfigError(
            "--sensor describes recorded spikes; the simulated sensor has half the frames' size"
        )
    if arguments.tile is not None and (arguments.tile < 0 or arguments.tile % 2):
        raise ConfigError(
            f"--tile: found {arguments.tile}, expected an even number of pixels, 0 for whole frames"
        )
    try:
        _restore(arguments)
    except KeyboardInterrupt:
        print(_stopped(arguments.output), file=sys.stderr)
        return EXIT_STOPPED
    return 0


def _restore(arguments: argparse.Namespace) -> None:
    from fractions import Fraction

    from vrtspike.deblurring.evaluation.folder import Order, restore_into
    from vrtspike.deblurring.evaluation.trained import load
    from vrtspike.evaluation.device import take_device
    from vrtspike.progress_bar import progress_bar

    order = Order(
        frames=arguments.input,
        output=arguments.output,
        spikes=arguments.spikes,
        simulate_spikes=arguments.simulate_spikes,
        sensor=None if arguments.sensor is None else tuple(arguments.sensor),
        sharp=arguments.sharp,
        video=arguments.video,
        side_by_side=arguments.side_by_side,
        pictures=arguments.pictures,
        fps=None if arguments.fps is None else Fraction(arguments.fps).limit_denominator(1001),
        tile=arguments.tile,
        anew=arguments.anew,
    )
    with take_device(arguments.device, patience_s=_PATIENCE_S) as device:
        model = load(arguments.folder, device=device, precision=arguments.precision)
        record = restore_into(model, order, progress=progress_bar)
    _tell(record, order.output)


def _tell(record: dict[str, Any], output: Path) -> None:
    """Print what was restored and where it lies."""
    from vrtspike.deblurring.evaluation.folder import RECORD, mean_figure, recorded_tiling

    frames = record["frames"]
    for frame in frames:
        if "psnr" in frame:
            blurry, restored = (_decibel(frame[name]) for name in ("psnr_blur", "psnr"))
            print(f"{frame['frame']}: {blurry} -> {restored}")
    means = [mean_figure(frames, name) for name in ("psnr_blur", "psnr")]
    if len(frames) > 1 and None not in means:
        print(f"mean: {_decibel(means[0])} -> {_decibel(means[1])}")
    print(f"spikes: {record['spikes']['from']}")
    each = record["seconds_per_frame"]
    cost = "" if each is None else f", {each:.1f} s each"
    print(
        f"{len(frames)} frame{'s' * (len(frames) != 1)}{cost} "
        f"({recorded_tiling(record).describe()}, {record['precision']}, "
        f"{record['recomputation']:.2f} x computed): {output}; record: {output / RECORD}"
    )


def _decibel(value: float | None) -> str:
    return "identical" if value is None else f"{value:.2f} dB"


def _stopped(output: Path) -> str:
    """What is saved, and how to go on; an import may have been stopped, so that none is begun."""
    saved = len(list((output / "restored").glob("*.png")))
    words = [word for word in sys.argv[1:] if word != "--anew"]
    return f"stopped with {saved} frames restored; continue: vrtspike {shlex.join(words)}"
