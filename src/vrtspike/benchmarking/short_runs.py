"""The settings of trainings that are only timed: a preset's own, but for what would disturb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vrtspike.config.loading import settings_from
from vrtspike.config.merging import overlay, parse_overrides
from vrtspike.config.reading import given_document
from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import ConfigError
from vrtspike.flatten import flat_settings

_ENDLESS = 1_000_000
"""Epochs of a training, and steps between what happens rarely: it is stopped long before."""

_ORIGIN = "--against"


@dataclass(frozen=True)
class Side:
    """One of the two settings that are compared.

    Attributes:
        name: for a person.
        settings: complete, as they are timed.
        dataset: the dataset manifest.
    """

    name: str
    settings: RunSettings
    dataset: Path


def against(settings: RunSettings, changes: Sequence[str]) -> RunSettings:
    """The settings with some keys changed.

    Args:
        settings: of the preset.
        changes: ``KEY=value``.

    Raises:
        ConfigError: if a key or value is wrong, or nothing is changed.
    """
    changed = _overlaid(settings, changes, _ORIGIN)
    if changed.TRAIN.NUM_WORKERS != settings.TRAIN.NUM_WORKERS:
        raise ConfigError(
            f"{_ORIGIN} TRAIN.NUM_WORKERS: an old name, which does nothing beside DATALOADER; give "
            "DATALOADER.TRAIN_WORKERS"
        )
    if not differences(settings, changed):
        raise ConfigError(
            f"{_ORIGIN} {' '.join(changes)}: the preset has these values already, there is nothing "
            "to compare; give another value"
        )
    return changed


def differences(before: RunSettings, after: RunSettings) -> dict[str, tuple[str, str]]:
    """The keys whose values differ, with both values as JSON."""
    one, other = (flat_settings(each.model_dump(mode="json")) for each in (before, after))
    return {
        key: (one.get(key, "-"), other.get(key, "-"))
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    }


def timed(settings: RunSettings, last_step: int) -> RunSettings:
    """RunSettings for a training that is timed, and stopped after some steps.

    It does not end by itself, because a validation would come first; nobody is told of it; crops
    stay those of the first phase. All else is as in the preset.

    Args:
        settings: of the preset.
        last_step: with which memory is noted.
    """
    keys = [
        "TRAIN.MAX_STEPS=null",
        f"TRAIN.EPOCHS={_ENDLESS}",
        "TRAIN.EARLY_STOPPING=null",
        f"TRAIN.SAVE_EVERY_STEPS={_ENDLESS}",
        f"LOG.VAL_EVERY_STEPS={_ENDLESS}",
        f"LOG.MEMORY_EVERY_STEPS={last_step}",
        "LOG.ENABLE_TIMING_LOG=true",
        "LOG.TIMING_FILE=true",
        "LOG.TIMING_FILE_INTERVAL=1",
        "LOG.WANDB=null",
        "LOG.MLFLOW=null",
        "LOG.ON_END=null",
    ]
    if settings.TRAIN.PROGRESSIVE:
        size = settings.TRAIN.PROGRESSIVE[0].CROP_SIZE
        keys.append(f"TRAIN.PROGRESSIVE=[{{CROP_SIZE: {size}, EPOCHS: {_ENDLESS}}}]")
    return _overlaid(settings, keys, "benchmark")


def timed_pair(
    before: RunSettings, after: RunSettings, last_step: int
) -> tuple[RunSettings, RunSettings]:
    """Both settings as :func:`timed`.

    Raises:
        ConfigError: if that makes a key equal in which they differ.
    """
    pair = timed(before, last_step), timed(after, last_step)
    lost = differences(before, after).keys() - differences(*pair).keys()
    if lost:
        raise ConfigError(
            f"{_ORIGIN} {', '.join(sorted(lost))}: the benchmark sets this itself, for both "
            "settings, so that no difference is left; leave it out"
        )
    return pair


def first_steps(settings: RunSettings) -> list[str]:
    """In what the first steps of a training differ from later ones, in words."""
    found = []
    if len(settings.TRAIN.PROGRESSIVE) > 1:
        size, count = settings.TRAIN.PROGRESSIVE[0].CROP_SIZE, len(settings.TRAIN.PROGRESSIVE)
        found.append(f"crops of {size}, the first of {count} phases (TRAIN.PROGRESSIVE)")
    if settings.TRAIN.FREEZE_FLOW_STEPS:
        steps = settings.TRAIN.FREEZE_FLOW_STEPS
        found.append(f"flow and alignment fixed, as in the first {steps} (TRAIN.FREEZE_FLOW_STEPS)")
    return found


def _overlaid(settings: RunSettings, keys: Sequence[str], origin: str) -> RunSettings:
    given = given_document(settings.model_dump(mode="json"), "the preset")
    return settings_from(overlay(given, parse_overrides(keys, origin)))
