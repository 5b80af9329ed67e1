"""``statistics.json``: what a run standardises spikes with, kept beside its weights."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from vrtspike.data.clips.dataset import load_dataset
from vrtspike.data.store.voxels import Statistics
from vrtspike.errors import DataError, RunError
from vrtspike.files import read_json, write_json
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.names import STATISTICS

SCHEMA = 1


def write_statistics(folder: Path) -> None:
    """Write the ``statistics.json`` of a run from its data set.

    It holds mean, standard deviation and count of the voxels that training standardised with
    (DATA.NORM where a preset gives it), or null for a model without spikes; the bins; name and
    digest of the data set.

    Args:
        folder: with the ``settings.json`` of the run.

    Raises:
        DataError: if the data set is not there.
        RunError: if it has changed since the run began.
    """
    run = RunIdentity.read(folder)
    dataset = load_dataset(run.dataset)
    if dataset.digest != run.dataset_digest:
        raise RunError(
            f"{folder / STATISTICS}: cannot be made, {run.dataset} has changed since this run "
            "began; train the preset again"
        )
    uses_spikes = run.settings.MODEL.USE_SPIKE
    statistics = dataset.statistics_for(run.settings.DATA) if uses_spikes else None
    write_json(
        folder / STATISTICS,
        {
            "schema": SCHEMA,
            "dataset": dataset.name,
            "dataset_digest": dataset.digest,
            "bins": dataset.bins,
            "statistics": None if statistics is None else asdict(statistics),
        },
    )


def read_statistics(folder: Path) -> Statistics | None:
    """What the spikes of a run's model are standardised with; None for a model without spikes.

    Args:
        folder: of a run, or of its published result. Where an earlier version has left no
            ``statistics.json`` there, the file is made from the data set.

    Raises:
        RunError: if the file is missing and cannot be made, or is not such a file.
    """
    path = folder / STATISTICS
    if not path.is_file():
        _make_up_for(folder)
    try:
        found: Any = read_json(path)
        known = found["statistics"]
        return None if known is None else Statistics(**known)
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{path}: damaged, or not the statistics of a run ({error}); copy the whole result "
            "folder again, or remove the file and train the preset again: a finished run is only "
            "published again"
        ) from error


def _make_up_for(folder: Path) -> None:
    try:
        write_statistics(folder)
    except (DataError, RunError) as error:
        raise RunError(
            f"{folder / STATISTICS}: no such file, and it cannot be made from the data set "
            f"({error}); copy the whole result folder, or train the preset again: a finished run "
            "is only published again"
        ) from error
