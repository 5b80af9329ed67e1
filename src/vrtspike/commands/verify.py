"""The command ``vrtspike verify``: damage of data sets and trained models."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from vrtspike.runs.named_models import BUNDLED_NAMES, find_trained_model
from vrtspike.system.errors import DataError, UserError, list_faults
from vrtspike.system.progress_bar import progress_bar

ADVICE = "Delete these stores with their manifests and run the workflow again."
MODEL_NAMES = (
    f"Name {' or '.join(BUNDLED_NAMES)} (the bundled weights), a result folder "
    "(results/train/<preset>), a packed run, an .onnx file or owner/name of the Hugging Face hub; "
    "a data set by its dataset.json."
)
MODEL_ADVICE = "Copy these folders again from their origin, or train again."


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
    read the weights; a model that restores clips is loaded. The exit status is 2 if anything is
    damaged, or a model does not exist.
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
    sequences = (sequence for path in datasets for sequence in load_dataset(path).sequences)
    for manifest in dict.fromkeys(sequence.store.with_suffix(".json") for sequence in sequences):
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
    missing = []
    damaged = []
    for model in models:
        try:
            path = find_trained_model(model)
        except UserError as error:
            missing.append(str(error))
            continue
        if not path.exists():
            missing.append(f"{model}: no such file or folder")
            continue
        try:
            _read_model(path)
        except UserError as error:
            damaged.append(str(error))
            print(f"{model}: damaged")
        else:
            print(f"{model}: sound")
    return missing, damaged


def _read_model(path: Path) -> None:
    """Read a trained model of any task completely.

    Raises:
        UserError: if it is damaged.
    """
    from vrtspike.deblurring_settings import DeblurringSettings
    from vrtspike.io.weights import read_weights
    from vrtspike.restoration.loading import load
    from vrtspike.runs.file_names import WEIGHTS
    from vrtspike.runs.published import read_finished, require_published

    if path.suffix == ".onnx" or isinstance(read_finished(path).settings, DeblurringSettings):
        load(path, device="cpu")
    else:
        read_weights(path / WEIGHTS)
        require_published(path / WEIGHTS)
