"""Checks that a preset fits the trained models that it uses: its start, and its teacher."""

from __future__ import annotations

import math
from pathlib import Path

from vrtspike.data.clips.dataset_manifest import DatasetManifest
from vrtspike.data.clips.requirements import require_spikes
from vrtspike.data.clips.run_statistics import read_run_statistics, training_statistics
from vrtspike.deblurring_settings import DeblurringSettings, require_deblurring_settings
from vrtspike.deblurring_settings.differences import differing_model_keys
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.runs.file_names import STATISTICS
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import pretrained_file
from vrtspike.system.errors import ConfigError, RunError

TEACHER = "TRAIN.DISTILL.TEACHER"
_NO_SHAPE = ("MODEL.TYPE", "MODEL.USE_SPIKE")
"""Keys of every model that change the network but not the shapes of its weights."""


def require_fitting_start(settings: DeblurringSettings) -> None:
    """Reject a preset whose network or inputs differ from those of MODEL.PRETRAINED.

    Shapes are compared when the weights are loaded.

    Raises:
        ConfigError: naming the keys and both values.
        RunError: if a file next to the weights is missing or damaged.
    """
    start = settings.MODEL.PRETRAINED
    if start is None:
        return
    folder = pretrained_file(start).parent
    trained = RunIdentity.read(folder).settings
    if not isinstance(trained, DeblurringSettings):
        raise ConfigError(
            f"MODEL.PRETRAINED {start}: a run of TASK {trained.TASK}, expected one of the "
            "deblurring"
        )
    names = [*_NO_SHAPE, *settings.MODEL.network.keys_without_shape]
    differing = differing_model_keys(trained, settings)
    faults = [differing[name] for name in names if name in differing]
    if settings.MODEL.USE_SPIKE and trained.MODEL.USE_SPIKE:
        norm = settings.DATA.NORM
        options = StoreOptions.from_settings(settings.DATA)
        faults += voxel_differences(folder, trained, options, norm.MEAN, norm.STD)
    if faults:
        raise ConfigError(
            f"MODEL.PRETRAINED {start}: {'; '.join(faults)}. Set these keys to its values "
            "(null in DATA.NORM takes them), or name other weights"
        )


def require_fitting_teacher(
    folder: Path, manifest: DatasetManifest, settings: DeblurringSettings
) -> None:
    """Reject a teacher whose spikes or voxels differ from those of the data set.

    Args:
        folder: result folder of the teacher.
        manifest: data set of the preset.
        settings: settings of the preset.

    Raises:
        ConfigError: naming the teacher, the keys and both values.
        RunError: if the statistics of the teacher are missing or damaged.
    """
    run = RunIdentity.read(folder)
    teacher = require_deblurring_settings(run.settings, run.name)
    title = f"{manifest.path}, with {TEACHER} {folder}"
    require_spikes(title, manifest.statistics is not None, teacher)
    if not teacher.MODEL.USE_SPIKE:
        return
    statistics = training_statistics(settings, manifest)
    assert statistics is not None, "data and a start without spikes are refused"
    options = StoreOptions.from_settings(settings.DATA)
    faults = voxel_differences(folder, teacher, options, statistics.mean, statistics.std)
    if faults:
        raise ConfigError(
            f"{TEACHER} {folder}: {'; '.join(faults)}. They must be equal: set these keys to its "
            "values, or choose another teacher"
        )


def voxel_differences(
    folder: Path,
    trained: DeblurringSettings,
    options: StoreOptions,
    mean: float | None,
    std: float | None,
) -> list[str]:
    """Compare the voxels that a trained model expects with those of a preset.

    Args:
        folder: result folder of the model, which takes spikes.
        trained: settings that it was trained with.
        options: options of the preset's stores.
        mean: mean that the preset standardises voxels with; None takes the model's.
        std: the same for the standard deviation.

    Returns:
        a line for each differing key, with both values.

    Raises:
        RunError: if the statistics of the model are missing or damaged.
    """
    statistics = read_run_statistics(folder).voxels
    if statistics is None:
        raise RunError(
            f"{folder / STATISTICS}: holds no statistics, but the model takes spikes; copy the "
            "whole folder again"
        )
    lines = []
    preset = options.by_key
    for key, value in StoreOptions.from_settings(trained.DATA).by_key.items():
        if preset[key] != value:
            lines.append(f"{key} is {value} there, {preset[key]} here")
    norms = {"MEAN": (statistics.mean, mean), "STD": (statistics.std, std)}
    for name, (value, chosen) in norms.items():
        # Values copied from a log are rounded, and data that were read again may differ in the
        # last digits.
        if chosen is not None and not math.isclose(chosen, value, rel_tol=1e-3):
            lines.append(f"DATA.NORM.{name} is {value:g} there, {chosen:g} here")
    return lines
