"""What a finished run has published: who it is and the settings it was trained with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vrtspike.config.loading import settings_from
from vrtspike.config.merging import overlay, parse_overrides
from vrtspike.config.reading import given_document
from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import ConfigError, RunError
from vrtspike.runs.identity import RunIdentity, result_settings
from vrtspike.runs.names import RECORD, SETTINGS
from vrtspike.runs.record import read_record


@dataclass(frozen=True)
class PublishedRun:
    """A finished run.

    Attributes:
        identity: its name, settings, data and weights.
        parameters: number of parameters of its model.
        steps: optimiser steps it was trained for.
        processes: that trained it together.
    """

    identity: RunIdentity
    parameters: int | None
    steps: int | None
    processes: int = 1

    @property
    def name(self) -> str:
        """Its preset."""
        return self.identity.name

    @property
    def fingerprint(self) -> str:
        """Identifies settings, data and weights."""
        return self.identity.fingerprint

    @property
    def settings(self) -> RunSettings:
        """Complete."""
        return self.identity.settings

    @property
    def dataset_digest(self) -> str | None:
        """Contents of the data set it was trained on."""
        return self.identity.dataset_digest

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
        return replace(self, identity=replace(self.identity, settings=settings))


def read_published(folder: str | Path) -> PublishedRun:
    """Read ``run.json`` and ``settings.json`` of a result folder (``results/train/<preset>``).

    Raises:
        RunError: if one of them is missing, damaged or not what training writes.
    """
    folder = Path(folder)
    record = read_record(folder)
    if record is None:
        raise RunError(
            f"{folder / RECORD}: no such file; expected the folder of a finished run, such as "
            "results/train/<preset>"
        )
    return PublishedRun(
        RunIdentity.read(folder),
        record.get("parameters"),
        record.get("step"),
        int(record.get("processes") or 1),
    )


def require_names(runs: Sequence[PublishedRun]) -> None:
    """Refuse runs that a table could not tell apart.

    Raises:
        RunError: if two have one name.
    """
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        raise RunError(f"runs to compare need different names, found: {', '.join(names)}")
