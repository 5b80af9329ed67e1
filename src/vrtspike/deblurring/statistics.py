"""What the spikes of a run are standardised with."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.clips.dataset import load_dataset
from vrtspike.deblurring.data.store.voxels import Statistics
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import RunError
from vrtspike.io.files import read_json
from vrtspike.runs.names import STATISTICS


def run_statistics(settings: Settings, manifest: Path) -> dict[str, Any]:
    """Mean, standard deviation and count of the voxels that a run standardises with.

    DATA.NORM where a preset gives it; null for a model without spikes. Beside them the bins, name
    and digest of the data set.

    Raises:
        DataError: if the data set is not there.
    """
    dataset = load_dataset(manifest)
    uses_spikes = settings.MODEL.USE_SPIKE
    statistics = dataset.statistics_for(settings.DATA) if uses_spikes else None
    return {
        "dataset": dataset.name,
        "dataset_digest": dataset.digest,
        "bins": dataset.bins,
        "statistics": None if statistics is None else asdict(statistics),
    }


def read_statistics(folder: Path) -> Statistics | None:
    """What the spikes of a run's model are standardised with; None for a model without spikes.

    Args:
        folder: of a run, or of its published result.

    Raises:
        RunError: if the file is missing, or is not such a file.
    """
    path = folder / STATISTICS
    try:
        found: Any = read_json(path)
        known = found["statistics"]
        return None if known is None else Statistics(**known)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{path}: missing, damaged, or not the statistics of a run ({error}); copy the whole "
            "result folder again, or remove the file and train the preset again: a finished run is "
            "only published again"
        ) from error
