"""Commands of ``vrtspike`` about trained models: restore with one, export it."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from vrtspike.cluster.gpus import DEVICE_NAMES, DeviceName, take_device
from vrtspike.commands.recordings import add_sensor
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.restoration.precision import PRECISIONS
from vrtspike.restoration.result_record import RECORD
from vrtspike.runs.named_models import GENERAL, bundled_model, find_trained
from vrtspike.runs.names import RECORD as RUN_RECORD
from vrtspike.system.cli import EXIT_SIGINT, add_output, positive_int
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.system.progress_bar import progress_bar

_GPU_TIMEOUT_S = 30.0
"""For a GPU that may be about to be free; a person who waits can choose the CPU."""

_FIGURES = {
    "psnr": "mean PSNR, dB",
    "reblur": "blurred again as the spikes tell, PSNR to the blurry frames, dB",
    "agreement": "correlation with the spikes at the sharp instant",
    "unseen": "agreement with spikes that the model has not seen",
    "agreement_outside": "correlation with the spikes outside the open shutter",
}
"""Means that are shown, of blurry and of restored frames."""


def add_restore(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("run_path", nargs="?", metavar="MODEL", help="the same as --model MODEL")
    add("frames", type=Path, metavar="INPUT", help="folder of blurry frames, or a video file")
    parser.set_defaults(accept_extra=_accept_extra)
    add(
        "--model",
        metavar="MODEL",
        help="result folder (results/train/demo), packed run, .onnx, owner/name of the Hugging "
        f"Face hub, or {GENERAL}, the package's own weights, which are taken without it",
    )
    add_output(parser, "folder for the results", "OUT", required=True)
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
    add(
        "--layout",
        choices=LAYOUTS,
        help="of the spikes, which tells when frames were exposed unless an exposures.csv does; "
        "without it that of the run's data set, else spk_gopro",
    )
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


def restore(arguments: argparse.Namespace) -> int:
    """Restore blurry frames or a video with a trained model.

    MODEL is the result folder of a finished run, where weights, settings and the statistics of
    spikes lie together; what vrtspike pack or export has made of one; owner/name of the Hugging
    Face hub; or general, the package's own weights. Restored frames are written as PNG into
    OUT/restored. A call that was stopped goes on where it stopped when it is repeated. Spikes are
    recorded or simulated; a model that was trained without them takes none. The sensor's size is
    that of --sensor, of the files, of a config.yaml beside them or of the layout, else half the
    frames'.
    """
    _choose_model(arguments)
    output: Path = arguments.output
    if output.is_file() or output.suffix in (".png", ".mp4"):
        raise ConfigError(f"--output: found {output}, expected a folder for frames and videos")
    for option in ("sensor", "layout"):
        if arguments.spikes is None and getattr(arguments, option) is not None:
            raise ConfigError(
                f"--{option} describes recorded spikes, and there are none: give them (--spikes), "
                f"or leave --{option} out; the simulated sensor has half the frames' size"
            )
    try:
        _restore(arguments)
    except KeyboardInterrupt:
        print("stopped; the same command, without --overwrite, continues", file=sys.stderr)
        return EXIT_SIGINT
    return 0


def _accept_extra(arguments: argparse.Namespace, words: Sequence[str]) -> bool:
    """Accept INPUT behind options: argparse has taken MODEL for it."""
    if len(words) != 1 or words[0].startswith("-") or arguments.run_path is not None:
        return False
    arguments.run_path, arguments.frames = str(arguments.frames), Path(words[0])
    return True


def _choose_model(arguments: argparse.Namespace) -> None:
    """Set ``run_path`` to the model: MODEL, --model, or the package's own weights.

    Raises:
        ConfigError: if two are given, the only folder is that of a model, or none is given and this
            installation lacks its own weights.
    """
    if arguments.run_path is not None and arguments.model is not None:
        raise ConfigError(
            f"found two models, {arguments.run_path} and --model {arguments.model}; give one"
        )
    if arguments.run_path is None and (arguments.frames / RUN_RECORD).is_file():
        raise ConfigError(
            f"{arguments.frames}: found a trained model, and no blurry frames; give them behind it"
        )
    arguments.run_path = arguments.run_path or arguments.model
    if arguments.run_path is None:
        arguments.run_path = GENERAL
        try:
            bundled_model(GENERAL)
        except RunError as error:
            raise ConfigError(f"--model: found none, and {error}") from error


def _restore(arguments: argparse.Namespace) -> None:
    """Restore frames with a trained model, and print the results."""
    from vrtspike.runs.published import read_finished

    # Faults of the arguments are reported before imports that take seconds.
    path = find_trained(arguments.run_path)
    exported = None
    if path.suffix == ".onnx":
        from vrtspike.restoration.trained import load_onnx

        device = None if arguments.device == "auto" else arguments.device
        exported = load_onnx(path, device, arguments.precision)
    run = read_finished(path) if exported is None else exported.run
    from vrtspike.restoration.folder import restore_into
    from vrtspike.restoration.request import Request, open_request

    values = {field.name: getattr(arguments, field.name) for field in fields(Request)}
    values["sensor"] = tuple(arguments.sensor) if arguments.sensor else None
    request = Request(**values)
    source, sharp = open_request(run, request)
    device_name: DeviceName = "cpu" if exported else arguments.device
    with take_device(device_name, timeout_s=_GPU_TIMEOUT_S) as device:
        from vrtspike.restoration.trained import load

        model = exported or load(path, device=device, precision=arguments.precision)
        record = restore_into(model, request, source, sharp, progress=progress_bar)
    _show(record, arguments)


def _mean(frames: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Mean of a figure over the frames that have it; None if none has.

    Without pandas, which a small installation lacks.
    """
    values = [frame[name] for frame in frames if frame.get(name) is not None]
    numbers = [value for value in values if not math.isnan(value)]
    return statistics.fmean(numbers) if numbers else None


def _show(record: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Print the means of figures, and the place of the results."""
    from vrtspike.restoration.folder_figures import verdict_messages
    from vrtspike.restoration.tiling import Tiling

    output = arguments.output
    frames = record["frames"]
    for name, title in (_FIGURES | {name: name for name in arguments.no_reference}).items():
        restored = _mean(frames, name)
        if restored is None:
            continue
        blurry = _mean(frames, f"{name}_blur")
        before = "" if blurry is None else f"{blurry:.2f} -> "
        print(f"{title}: {before}{restored:.2f}")
    if record["doubts"]:
        print("figures from the spikes: left out, as the spikes do not fit the frames")
    for message in verdict_messages(record["verdicts"]):
        print(message)
    print(f"spikes: {record['spikes']['from']}")
    seconds = record["seconds_per_frame"]
    cost = "" if seconds is None else f", {seconds:.1f} s each"
    print(
        f"{len(frames)} frames{cost} ({Tiling(**record['tiling']).describe()}, "
        f"{record['precision']}, {record['recomputation']:.2f} x computed): {output}; record: "
        f"{output / RECORD}"
    )


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_path", metavar="MODEL", help="as for restore")
    add_output(parser, "file to write", "FILE.onnx", required=True)
    parser.add_argument(
        "--ratio",
        type=positive_int,
        default=2,
        help="pixels of a frame for each pixel of the spike sensor, along each side",
    )


def export(arguments: argparse.Namespace) -> None:
    """Write a trained model as an ONNX file, which runs without PyTorch.

    The file takes frames and spike counts of any number and size; it holds settings and statistics
    of the run, and `vrtspike restore` takes it in place of a run. It is compared with PyTorch
    before it is kept. VRT cannot be exported, because of its deformable convolutions.
    """

    output: Path = arguments.output
    if output.suffix != ".onnx":
        raise ConfigError(f"--output: found {output}, expected a file named *.onnx")
    from vrtspike.runs.published import read_finished

    read_finished(find_trained(arguments.run_path))
    # Imported after the arguments are checked, because this takes seconds.
    from vrtspike.restoration.onnx_export import export_model
    from vrtspike.restoration.trained import load

    model = load(arguments.run_path, device="cpu")
    difference = export_model(model, output, arguments.ratio)
    print(
        f"{output}: {output.stat().st_size / 1e6:.1f} MB, differs from PyTorch by "
        f"{difference:.1g} at most"
    )
