"""The command ``vrtspike restore``: blurry frames or a video with a trained model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from vrtspike.commands.sensor_option import add_sensor, sensor_size
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.launching.gpus import DEVICE_NAMES
from vrtspike.restoration.folder.record import PAGE
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.restoration.inference.precision import PRECISIONS
from vrtspike.restoration.restore_command import run_restore_command
from vrtspike.runs.file_names import RUN_RECORD
from vrtspike.runs.named_models import GENERAL, bundled_model
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.system.options import add_output
from vrtspike.system.program import EXIT_SIGINT


def add_restore(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _add_model_and_input(parser)
    add_output(parser, "folder for the results", "OUT", required=True)
    _add_spikes(parser)
    _add_results(parser)
    _add_computation(parser)
    add = parser.add_argument
    add(
        "--anyway",
        action="store_true",
        help="restore a recording far outside those that the model was trained on, too",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace what an earlier call has written into OUT; other files stay",
    )


def _add_model_and_input(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the model and the blurry frames."""
    add = parser.add_argument
    add("model_name", nargs="?", metavar="MODEL", help="the same as --model MODEL")
    add("frames", type=Path, metavar="INPUT", help="folder of blurry frames, or a video file")
    parser.set_defaults(accept_extra=_accept_extra)
    add(
        "--model",
        metavar="MODEL",
        help="result folder (results/train/demo), packed run, .onnx, owner/name of the Hugging "
        f"Face hub, or {GENERAL}, the bundled weights, which are taken without it",
    )


def _add_spikes(parser: argparse.ArgumentParser) -> None:
    """Add the options on the spikes of the frames."""
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
    add_sensor(parser)
    parser.add_argument(
        "--layout",
        choices=LAYOUTS,
        help="of the spikes, which tells when frames were exposed unless an exposures.csv does; "
        "without it that of the run's data set, else spk_gopro",
    )


def _add_results(parser: argparse.ArgumentParser) -> None:
    """Add the options on metrics, videos and the page."""
    add = parser.add_argument
    add("--sharp", type=Path, metavar="FOLDER", help="sharp frames of the same names, to compare")
    add(
        "--no-reference",
        nargs="+",
        default=[],
        metavar="METRIC",
        help="metrics of pyiqa that need no sharp frame, such as piqe (extra quality)",
    )
    add("--video", action="store_true", help="write OUT/restored.mp4 (H.264), too")
    add(
        "--side-by-side",
        action="store_true",
        help="write OUT/side_by_side.mp4, too: blurry, restored and sharp where there is one",
    )
    add(
        "--compare",
        metavar="OTHER",
        help="a second model, which restores into OUT/compared, or a folder of frames restored "
        "before: stands beside the first on the page",
    )
    add(
        "--no-page",
        dest="page",
        action="store_false",
        help="write no OUT/index.html to look at blurry and restored frames in a browser",
    )


def _add_computation(parser: argparse.ArgumentParser) -> None:
    """Add the options on memory, device and type."""
    add = parser.add_argument
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


def run_restore(arguments: argparse.Namespace) -> int:
    """Restore blurry frames or a video with a trained model.

    MODEL is the result folder of a finished run, with weights, settings and the statistics of
    spikes; the output of vrtspike pack or vrtspike export; owner/name of the Hugging Face hub; or
    general, the bundled weights. Restored frames are written as PNG into OUT/restored. If the call
    is interrupted, repeat it to continue. Spikes are recorded or simulated; a model that was
    trained without them takes none. The sensor's size is that of --sensor, of the files, of a
    config.yaml next to them or of the layout, else half the frames'. OUT/index.html shows the
    result in a browser.
    """
    model_name = _model_name(arguments)
    if arguments.compare is not None and not arguments.page:
        raise ConfigError("--compare: found --no-page, too; the page is what shows both")
    request = request_of(arguments)
    try:
        result = run_restore_command(
            model_name,
            request,
            compare=arguments.compare,
            device_name=arguments.device,
            precision=arguments.precision,
        )
    except KeyboardInterrupt:
        print("stopped; the same command, without --overwrite, continues", file=sys.stderr)
        return EXIT_SIGINT
    print(result)
    if request.page:
        print(f"page: {request.output / PAGE}")
    return 0


def _accept_extra(arguments: argparse.Namespace, words: Sequence[str]) -> bool:
    """Accept INPUT after options: argparse has mistaken MODEL for it."""
    if len(words) != 1 or words[0].startswith("-") or arguments.model_name is not None:
        return False
    arguments.model_name, arguments.frames = str(arguments.frames), Path(words[0])
    return True


def _model_name(arguments: argparse.Namespace) -> str:
    """Return the name of the model: MODEL, --model, or that of the bundled weights.

    Raises:
        ConfigError: if two are given, the only folder is that of a model, or none is given and this
            installation lacks the bundled weights.
    """
    if arguments.model_name is not None and arguments.model is not None:
        raise ConfigError(
            f"found two models, {arguments.model_name} and --model {arguments.model}; give one"
        )
    if arguments.model_name is None and (arguments.frames / RUN_RECORD).is_file():
        raise ConfigError(
            f"{arguments.frames}: found a trained model, and no blurry frames; give them behind it"
        )
    name: str | None = arguments.model_name or arguments.model
    if name is not None:
        return name
    try:
        bundled_model(GENERAL)
    except RunError as error:
        raise ConfigError(f"--model: found none, and {error}") from error
    return GENERAL


def request_of(arguments: argparse.Namespace) -> RestoreRequest:
    """Return the request of a command line, whose options have the names of its fields."""
    options = {field.name: getattr(arguments, field.name) for field in fields(RestoreRequest)}
    return RestoreRequest(**{**options, "sensor": sensor_size(arguments)})
