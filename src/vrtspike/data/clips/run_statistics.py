"""Statistics and limits of a run: the normalisation of its voxels, and its training recordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.data.clips.dataset_manifest import DatasetManifest, load_dataset
from vrtspike.data.clips.recording_limits import RecordingLimits, training_limits
from vrtspike.data.voxels.normalization import VoxelStatistics
from vrtspike.io.files import read_json
from vrtspike.runs.file_names import STATISTICS
from vrtspike.runs.named_models import pretrained_file
from vrtspike.system.errors import RunError

if TYPE_CHECKING:
    from vrtspike.deblurring_settings.schema import DeblurringSettings


def run_statistics(settings: DeblurringSettings, manifest_path: Path) -> dict[str, Any]:
    """Return the statistics file of a run: JSON values.

    The file holds mean, standard deviation and count of the voxels (:func:`training_statistics`;
    null for a model without spikes), the bins, name and digest of the data set, and the limits of
    the training (:class:`RecordingLimits`) if the data set has them. Weights that are not trained
    keep the whole file of their run, because they learn from no other data.

    Raises:
        DataError: if the data set is missing.
        RunError: if the statistics of the trained model that a run starts from are missing or
            damaged.
    """
    if settings.unchanged_weights is not None:
        kept = read_run_statistics(pretrained_file(settings.unchanged_weights).parent)
        return dict(kept.contents)
    manifest = load_dataset(manifest_path)
    contents: dict[str, Any] = {
        "dataset": manifest.name,
        "dataset_digest": manifest.digest,
        "bins": manifest.stores.bins,
        "statistics": None,
    }
    if not settings.MODEL.USE_SPIKE:
        return contents
    statistics = training_statistics(settings, manifest)
    if statistics is not None:
        contents["statistics"] = asdict(statistics)
    data = settings.DATA
    held_out = manifest.held_out if data.VALIDATION != "test" else ()
    trained = [
        entry.limits
        for entry in manifest.sequences
        if entry.split == data.TRAIN_SPLIT and entry.name not in held_out
    ]
    limits = training_limits(trained, data)
    if limits is not None:
        contents["limits"] = limits.contents()
    return contents


def training_statistics(
    settings: DeblurringSettings, manifest: DatasetManifest
) -> VoxelStatistics | None:
    """Return the statistics that a training standardises voxels with.

    A training that starts from a trained model uses the statistics of that model, which its weights
    expect; else DATA.NORM; else those of the training split. None in a data set without spikes.

    Raises:
        RunError: if the statistics of that model are missing or damaged.
    """
    statistics = manifest.statistics_for(settings.DATA)
    start = settings.MODEL.PRETRAINED
    if start is None or statistics is None or not settings.MODEL.USE_SPIKE:
        return statistics
    return read_run_statistics(pretrained_file(start).parent).voxels


@dataclass(frozen=True)
class RunStatistics:
    """The statistics file of a run.

    Attributes:
        voxels: normalisation of the voxels; None for a model without spikes.
        limits: limits of the recordings that the run was trained on; None if the data set had none.
        contents: JSON values of the whole file.
    """

    voxels: VoxelStatistics | None
    limits: RecordingLimits | None
    contents: Mapping[str, Any]


def read_run_statistics(folder: Path) -> RunStatistics:
    """Read the statistics file of a run.

    Args:
        folder: folder of a run, or of its published result.

    Raises:
        RunError: if the file is missing, or is not such a file.
    """
    path = folder / STATISTICS
    try:
        contents = read_json(path)
        statistics = contents["statistics"]
        limits = contents.get("limits")
        return RunStatistics(
            voxels=None if statistics is None else VoxelStatistics(**statistics),
            limits=None if limits is None else RecordingLimits.parse(limits),
            contents=contents,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{path}: missing, damaged, or not the statistics of a run ({error!r}); copy the whole "
            "result folder again, or remove the file and train the preset again: a finished run is "
            "only published again"
        ) from error


def learned_dataset(folder: Path) -> tuple[str, str]:
    """Return name and digest of the data set that the weights of a run were trained on.

    Args:
        folder: folder of a run, or of its published result.

    Raises:
        RunError: if the file is missing, or is not such a file.
    """
    contents = read_run_statistics(folder).contents
    return contents.get("dataset", "of an unknown name"), contents.get("dataset_digest", "")
