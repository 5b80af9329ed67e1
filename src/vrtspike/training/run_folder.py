"""The folder of one run: what it computes, who is computing it, and its published result."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from vrtspike.config import Settings, result_settings
from vrtspike.config.loading import load_settings_file
from vrtspike.errors import ConfigError, RunError
from vrtspike.files import (
    atomic_path,
    atomic_write_text,
    json_digest,
    read_json,
    write_json,
)
from vrtspike.monitoring.records import read_records

SETTINGS = "settings.json"
RECORD = "run.json"
LOCK = "lock"
LOCK_PATIENCE_S = 30.0


@dataclass(frozen=True)
class ResolvedRun:
    """Everything that decides a run; ``settings.json`` in its folder, the trainer's only input.

    Attributes:
        name: the preset.
        settings: complete.
        dataset: path of the dataset manifest.
        fingerprint: digest of what changes the result; names the folder.
    """

    name: str
    settings: Settings
    dataset: str
    fingerprint: str

    def write(self, folder: Path) -> None:
        """Write ``settings.json``."""
        write_json(
            folder / SETTINGS,
            {
                "schema": 1,
                "NAME": self.name,
                "DATASET": self.dataset,
                "FINGERPRINT": self.fingerprint,
                "SETTINGS": self.settings.model_dump(mode="json"),
            },
        )

    @classmethod
    def read(cls, folder: Path) -> ResolvedRun:
        """Read ``settings.json``.

        Raises:
            RunError: if it is missing or not such a file.
            ConfigError: if its settings are not valid.
        """
        path = folder / SETTINGS
        if not path.is_file():
            raise RunError(
                f"{path}: no such file. Give --preset and --dataset to start a run in this folder, "
                "or the folder of an existing run"
            )
        found = read_json(path)
        try:
            settings = Settings.model_validate(found["SETTINGS"])
            return cls(found["NAME"], settings, found["DATASET"], found["FINGERPRINT"])
        except (KeyError, TypeError) as error:
            raise RunError(f"{path}: not the settings of a run ({error} is missing)") from error


def fingerprint(settings: Settings, dataset_digest: str, code_digest: str) -> str:
    """Twelve hexadecimal digits of what decides a run's result: settings, data and code."""
    value = {
        "settings": result_settings(settings),
        "dataset": dataset_digest,
        "code": code_digest,
    }
    return json_digest(value)[:12]


def dataset_digest(manifest: str | Path) -> str:
    """The digest in a dataset manifest.

    Raises:
        RunError: if there is no such manifest.
    """
    path = Path(manifest)
    if not path.is_file():
        raise RunError(f"{path}: no such dataset manifest; the rule 'statistics' makes it")
    digest: str = read_json(path)["digest"]
    return digest
