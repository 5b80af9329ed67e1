"""What a finished run has published: who it is and the settings it was trained with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vrtspike.config import Settings, load_settings_file, result_settings
from vrtspike.config.loading import settings_from
from vrtspike.config.merging import overlay, parse_overrides
from vrtspike.config.reading import given_document
from vrtspike.errors import ConfigError, RunError
from vrtspike.files import read_json

SETTINGS = "settings.json"
RECORD = "run.json"


@dataclass(frozen=True)
class PublishedRun:
    """A finished run.

    Attributes:
        name: its preset.
        fingerprint: identifies settings, data and code.
        settings: complete.
        parameters: number of parameters of its model.
        steps: optimiser steps it was trained for.
        dataset_digest: contents of the data set it was trained on.
    """

    name: str
    fingerprint: str
    settings: Settings
    parameters: int | None
    steps: int | None
    dataset_digest: str | None

    def with_overrides(self, overrides: Sequence[str]) -> PublishedRun:
        """The same run with other settings for its evaluation, such as ``TEST.TILE.SIZE=128``.

        Raises:
            ConfigError: if an override is wrong, or would describe other weights.
        """
        given = given_document(self.settings.model_dump(mode="json"), SETTINGS)
        settings = settings_from(overlay(given, parse_overrides(overrides)))
        if result_settings(settings) != result_settings(self.settings):
            raise ConfigError(
                f"--set {' '.join(overrides)}: changes what the weights were trained with; only "
                "TEST and keys that change no result can be replaced"
            )
        return replace(self, settings=settings)


def read_published(folder: str | Path) -> PublishedRun:
    """Read ``run.json`` and ``settings.json`` of a result folder (``results/train/<preset>``).

    Raises:
        RunError: if one of them is missing or not what training writes.
        ConfigError: if the settings are not valid.
    """
    folder = Path(folder)
    for name in (RECORD, SETTINGS):
        if not (folder / name).is_file():
            raise RunError(
                f"{folder / name}: no such file; expected the folder of a finished run, such as "
                "results/train/<preset>"
            )
    try:
        record = read_json(folder / RECORD)
        return PublishedRun(
            record["name"],
            record["fingerprint"],
            load_settings_file(folder / SETTINGS),
            record.get("parameters"),
            record.get("step"),
            record.get("dataset_digest"),
        )
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise RunError(f"{folder / RECORD}: not the record of a run ({error})") from error


def require_names(runs: Sequence[PublishedRun]) -> None:
    """Refuse runs that a table could not tell apart.

    Raises:
        RunError: if two have one name.
    """
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        raise RunError(f"runs to compare need different names, found: {', '.join(names)}")
