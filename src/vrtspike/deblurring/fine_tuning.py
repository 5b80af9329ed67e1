"""Check that a preset fits the trained model that it starts from (MODEL.PRETRAINED)."""

from __future__ import annotations

import math
from pathlib import Path

from vrtspike.data.clips.run_statistics import read_statistics
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import start_file
from vrtspike.runs.names import STATISTICS
from vrtspike.settings import Settings
from vrtspike.settings.differences import differing_model_keys
from vrtspike.system.errors import ConfigError, RunError

_NO_SHAPE = ("MODEL.TYPE", "MODEL.USE_SPIKE")
_NO_SHAPE_OF_VRT = ("MODEL.SPIKE_TSA.HEADS", "MODEL.FUSE.HEADS")
"""Keys that make another network; the shapes of the weights do not show it."""


def require_fitting_start(settings: Settings) -> None:
    """Refuse a preset that is another network than its start, or feeds it other inputs.

    Shapes are compared when the weights are loaded.

    Raises:
        ConfigError: naming the keys and both values.
        RunError: if a file beside the weights is missing or damaged.
    """
    given = settings.MODEL.PRETRAINED
    if given is None:
        return
    folder = start_file(given).parent
    run = RunIdentity.read(folder).settings
    if not isinstance(run, Settings):
        raise ConfigError(
            f"MODEL.PRETRAINED {given}: a run of TASK {run.TASK}, expected one of the deblurring"
        )
    faults = _network_faults(run, settings)
    if settings.MODEL.USE_SPIKE and run.MODEL.USE_SPIKE:
        faults += _voxel_faults(run, settings, folder)
    if faults:
        raise ConfigError(
            f"MODEL.PRETRAINED {given}: {'; '.join(faults)}. Set these keys to its values, or "
            "name other weights"
        )


def _network_faults(theirs: Settings, ours: Settings) -> list[str]:
    """Keys that make another network of equal shapes."""
    of_vrt = ours.MODEL.TYPE == theirs.MODEL.TYPE == "vrt_spike"
    names = (*_NO_SHAPE, *(_NO_SHAPE_OF_VRT if of_vrt else ()))
    differing = differing_model_keys(theirs, ours)
    return [differing[name] for name in names if name in differing]


def _voxel_faults(theirs: Settings, ours: Settings, folder: Path) -> list[str]:
    """Keys that make other voxels of the same spikes."""
    faults = [
        f"DATA.{key} is {getattr(theirs.DATA, key)} there, {getattr(ours.DATA, key)} here"
        for key in ("NUM_VOXEL_BINS", "CONTEXT_STEPS")
        if getattr(theirs.DATA, key) != getattr(ours.DATA, key)
    ]
    norm, statistics = ours.DATA.NORM, read_statistics(folder)
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
