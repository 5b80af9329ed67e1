"""Commands of ``vrtspike`` about recordings: spike files and stores."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from vrtspike.commands.sensor_option import add_sensor, sensor_size
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.runs.named_models import BUNDLED_NAMES, find_trained_model
from vrtspike.system.errors import ConfigError, DataError, UserError, list_faults
from vrtspike.system.options import add_output, positive_int
from vrtspike.system.progress_bar import progress_bar

ADVICE = "Delete these stores with their manifests and run the workflow again."
MODEL_NAMES = (
    f"Name {' or '.join(BUNDLED_NAMES)} (the bundled weights), a result folder "
    "(results/train/<preset>), a packed run, an .onnx file or owner/name of the Hugging Face hub; "
    "a data set by its dataset.json."
)
MODEL_ADVICE = "Copy these folders again from their origin, or train again."


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


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "places",
        nargs="+",
        metavar="PLACE",
        help="manifest of a data set (dataset.json), or a trained model as for restore",
    )


def run_verify(arguments: argparse.Namespace) -> None:
    """Read data sets and trained models completely and name all damage.

    For data sets, compare every chunk of the stores with its checksum, and the contents with the
    digest in their manifest. For trained models, compare files with the digests in run.json, and
    load the weights. The exit status is 2 if anything is damaged, or a model does not exist.
    """
    datasets = [Path(place) for place in arguments.places if place.endswith(".json")]
    models = [place for place in arguments.places if not place.endswith(".json")]
    messages = []
    store_faults = _store_faults(datasets)
    if store_faults:
        messages.append(list_faults("damaged stores", store_faults, ADVICE))
    missing, damaged = _check_models(models)
    if damaged:
        messages.append(list_faults("damaged models", damaged, MODEL_ADVICE))
    if missing:
        messages.append(list_faults("no such models", missing, MODEL_NAMES))
    if messages:
        raise DataError("\n".join(messages))


def _store_faults(datasets: Sequence[Path]) -> list[str]:
    """Check the stores of data sets, and report them one by one."""
    from vrtspike.data.clips.dataset_manifest import load_dataset
    from vrtspike.data.store.writing import find_damage

    faults: list[str] = []
    entries = (entry for path in datasets for entry in load_dataset(path).sequences)
    for manifest in dict.fromkeys(entry.store.with_suffix(".json") for entry in entries):
        with progress_bar(f"verify {manifest.stem}") as progress:
            try:
                store_faults = find_damage(manifest, progress)
            except DataError as error:
                store_faults = [str(error)]
        faults += store_faults
        result = f"{len(store_faults)} faults" if store_faults else "sound"
        print(f"{manifest}: {result}")
    return faults


def _check_models(models: Sequence[str]) -> tuple[list[str], list[str]]:
    """Check trained models, and report those that exist one by one.

    Returns:
        messages on unknown names and on damaged models.
    """
    from vrtspike.restoration.loading import load

    missing = []
    damaged = []
    for model in models:
        try:
            exists = find_trained_model(model).exists()
        except UserError as error:
            missing.append(str(error))
            continue
        if not exists:
            missing.append(f"{model}: no such file or folder")
            continue
        try:
            load(model, device="cpu")
        except UserError as error:
            damaged.append(str(error))
            print(f"{model}: damaged")
        else:
            print(f"{model}: sound")
    return missing, damaged
