"""Check that a preset fits the trained model that it starts from (MODEL.PRETRAINED)."""

from __future__ import annotations

import math
from pathlib import Path

from vrtspike.data.clips.run_statistics import read_run_statistics
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import start_file
from vrtspike.runs.names import STATISTICS
from vrtspike.settings import Settings
from vrtspike.settings.differences import differing_model_keys
from vrtspike.system.errors import ConfigError, RunError

_NO_SHAPE = ("MODEL.TYPE", "MODEL.USE_SPIKE")
_NO_SHAPE_OF_VRT = ("MODEL.SPIKE_TSA.HEADS", "MODEL.FUSE.HEADS")
"""Keys that change the network but not the shapes of its weights."""


def require_fitting_start(settings: Settings) -> None:
    """Refuse a preset with another network than its start, or with other inputs.

    Shapes are compared when the weights are loaded.

    Raises:
        ConfigError: naming the keys and both values.
        RunError: if a file beside the weights is missing or damaged.
    """
    start = settings.MODEL.PRETRAINED
    if start is None:
        return
    folder = start_file(start).parent
    run = RunIdentity.read(folder).settings
    if not isinstance(run, Settings):
        raise ConfigError(
            f"MODEL.PRETRAINED {start}: a run of TASK {run.TASK}, expected one of the deblurring"
        )
    faults = _network_faults(run, settings)
    if settings.MODEL.USE_SPIKE and run.MODEL.USE_SPIKE:
        faults += _voxel_faults(run, settings, folder)
    if faults:
        raise ConfigError(
            f"MODEL.PRETRAINED {start}: {'; '.join(faults)}. Set these keys to its values, or "
            "name other weights"
        )


def _network_faults(start_settings: Settings, settings: Settings) -> list[str]:
    """Describe differing keys that make another network of equal shapes."""
    names = list(_NO_SHAPE)
    if settings.MODEL.TYPE == start_settings.MODEL.TYPE == "vrt_spike":
        names += _NO_SHAPE_OF_VRT
    differing = differing_model_keys(start_settings, settings)
    return [differing[name] for name in names if name in differing]


def _voxel_faults(start_settings: Settings, settings: Settings, folder: Path) -> list[str]:
    """Describe differing keys that make other voxels of the same spikes."""
    faults = []
    for key in ("NUM_VOXEL_BINS", "CONTEXT_STEPS"):
        start_value = getattr(start_settings.DATA, key)
        value = getattr(settings.DATA, key)
        if value != start_value:
            faults.append(f"DATA.{key} is {start_value} there, {value} here")
    norm = settings.DATA.NORM
    statistics = read_run_statistics(folder).voxels
    if statistics is None:
        raise RunError(
            f"{folder / STATISTICS}: holds no statistics, but the model takes spikes; copy the "
            "whole folder again"
        )
    for key, preset, trained in (
        ("MEAN", norm.MEAN, statistics.mean),
        ("STD", norm.STD, statistics.std),
    ):
        # Values copied from a log are rounded.
        if preset is not None and not math.isclose(preset, trained, rel_tol=1e-3):
            faults.append(
                f"DATA.NORM.{key} is {trained:g} there, {preset:g} here (null takes the model's)"
            )
    return faults
