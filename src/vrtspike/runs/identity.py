"""The identity of a run: the settings, data and weights that its result depends on.

Code is not part of the identity, because a renamed function should not cause days of training;
:mod:`vrtspike.staleness.training_code` records it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from vrtspike.config.deprecated_keys import replace_deprecated_keys
from vrtspike.config.fields import decides_results, public_tree
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.config.tasks import find_task
from vrtspike.config.yaml_documents import document_from_tree
from vrtspike.io.backbone_weights import PUBLISHED, require_weights
from vrtspike.io.files import JsonValue, file_digest, json_digest, read_mapping, write_json
from vrtspike.runs.file_names import SETTINGS_FILE, STATISTICS
from vrtspike.system.errors import ConfigError, RunError

SCHEMA = 4
STATISTICS_SCHEMA = 1
_OUTSIDE = ("/", "~", "../")
"""Prefixes of paths outside the working folder."""


@dataclass(frozen=True)
class RunIdentity:
    """The contents of ``settings.json``, in a run's folder and published.

    Attributes:
        name: name of the preset.
        settings: complete settings.
        dataset: path of the manifest of the data set.
        fingerprint: digest of all that the result depends on; name of the run's folder.
        dataset_digest: digest of the contents of the data set; None for a run of ``fit``.
        weights: SHA-256 of each file of weights that training uses, by key.
    """

    name: str
    settings: RunSettings
    dataset: str
    fingerprint: str
    dataset_digest: str | None = None
    weights: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write ``settings.json``."""
        write_json(folder / SETTINGS_FILE, self.contents())

    def contents(self) -> dict[str, Any]:
        """Return the contents of ``settings.json``."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(RunIdentity)}
        settings = self.settings.model_dump(mode="json")
        return {"schema": SCHEMA, **values, "weights": dict(self.weights), "settings": settings}

    def public_contents(self) -> dict[str, Any]:
        """Return the contents for publication, without private values and paths of this machine.

        Private keys have their defaults; of paths outside the project the last part is kept.
        """
        contents = {**self.contents(), "settings": public_tree(self.settings)}
        return cast("dict[str, Any]", without_folders(contents))

    @classmethod
    def read(cls, folder: Path) -> RunIdentity:
        """Read ``settings.json``.

        Raises:
            RunError: if it is missing, not such a file, or of another version of this project.
        """
        path = folder / SETTINGS_FILE
        if not path.is_file():
            raise RunError(
                f"{path}: no such file; expected the folder of a run (runs/<preset>/<fingerprint>) "
                "or of its published result (results/train/<preset>)"
            )
        return cls.parse(read_mapping(path, "remove the folder to train the preset again"), path)

    @classmethod
    def parse(cls, contents: Mapping[str, Any], path: Path) -> RunIdentity:
        """Parse the contents of ``settings.json``: the inverse of :meth:`contents`.

        Args:
            contents: contents of the file.
            path: path of the file, for messages.

        Raises:
            RunError: if the contents are invalid, or of another version of this project.
        """
        try:
            if contents.get("schema") != SCHEMA:
                raise ValueError(f"found schema {contents.get('schema')}, expected {SCHEMA}")
            if not isinstance(contents["settings"], Mapping):
                raise ValueError(f"settings: found {contents['settings']!r}, expected a mapping")
            kind = find_task(contents["settings"].get("TASK", DEFAULT_TASK)).SETTINGS
            # Warnings of old keys are suppressed, because a finished run cannot be changed.
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                document = document_from_tree(contents["settings"], str(path))
                settings = kind.model_validate(
                    replace_deprecated_keys(document, kind.deprecated_keys).tree
                )
            values = {entry.name: contents[entry.name] for entry in fields(RunIdentity)}
            return cls(**{**values, "settings": settings})
        except (ConfigError, KeyError, ValueError) as error:
            raise RunError(
                f"{path}: invalid settings of a run, or those of another version of this project "
                f"({error}); remove the folder to train the preset again, or use the version that "
                "trained it"
            ) from error


def without_folders(value: JsonValue) -> JsonValue:
    """Return a JSON value with paths outside the working folder shortened to their last part.

    >>> without_folders({"ROOT": "/home/me/gopro/", "SPYNET": "weights/spynet.pth"})
    {'ROOT': 'gopro', 'SPYNET': 'weights/spynet.pth'}
    """
    if isinstance(value, dict):
        return {key: without_folders(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_folders(part) for part in value]
    if isinstance(value, str) and value.startswith(_OUTSIDE):
        return Path(value).name
    return value


def identify(name: str, settings: RunSettings, manifest_path: Path) -> RunIdentity:
    """Return the identity of a run, from settings, contents of the data set, and weights.

    Args:
        name: name of the preset.
        settings: complete settings.
        manifest_path: the manifest of the data set.

    Raises:
        DataError: if the manifest of the data set is missing or of another version.
        ConfigError: if the data set does not suit the settings.
        RunError: if a file of weights is missing.
    """
    task = find_task(settings.TASK)
    digest = task.dataset_digest(manifest_path)
    weights = weight_digests(task.training_weights(settings))
    task.require_data(manifest_path, settings)
    identity = {"settings": result_settings(settings), "dataset": digest, "weights": weights}
    fingerprint = json_digest(identity)[:12]
    return RunIdentity(name, settings, str(manifest_path.resolve()), fingerprint, digest, weights)


def result_settings(settings: RunSettings) -> dict[str, Any]:
    """Return the settings that change a model: no workers, intervals, paths or memory limits.

    The interval of validations counts only with early stopping. Settings of the evaluation are in
    :func:`evaluation_settings`; :func:`identify` adds the contents of weights.
    """
    result = _result_keys(settings)
    del result["TEST"]
    for section, name in settings.inactive_keys:
        del result[section][name]
    if settings.TRAIN.EARLY_STOPPING is not None:
        result["LOG"]["VAL_EVERY_STEPS"] = settings.LOG.VAL_EVERY_STEPS
    return result


def evaluation_settings(settings: RunSettings) -> dict[str, Any]:
    """Return the settings that change the evaluation of given weights."""
    return {"TEST": _result_keys(settings.TEST)}


def _result_keys(section: BaseModel) -> dict[str, Any]:
    dumped = section.model_dump(mode="json")
    for name, schema in type(section).model_fields.items():
        value = getattr(section, name)
        if not decides_results(schema):
            dumped.pop(name, None)  # BASE is excluded from dumps
        elif isinstance(value, BaseModel):
            dumped[name] = _result_keys(value)
    return dumped


def weight_digests(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of each file by key; of a published file the one to be verified.

    Raises:
        RunError: if a file is missing; it names the key, or how to fetch a published file.
    """
    digests: dict[str, str] = {}
    for key, path in files.items():
        if path.name in PUBLISHED:
            require_weights(path)
        try:
            digests[key] = PUBLISHED.get(path.name) or file_digest(path)
        except OSError as error:
            raise RunError(
                f"{key}: {path}: {error.strerror or error}; give existing weights (of a preset: "
                "train it first), or remove the key"
            ) from error
    return digests


def prepare_folder(folder: Path) -> RunIdentity:
    """Require the data and weights that a run began with, and write ``statistics.json``.

    Args:
        folder: the run's folder, with its ``settings.json``.

    Returns:
        the run of that file.

    Raises:
        RunError: if the folder holds no run, or data or weights have changed since the run began.
    """
    earlier = RunIdentity.read(folder)
    run = identify(earlier.name, earlier.settings, Path(earlier.dataset))
    if earlier.fingerprint != run.fingerprint:
        changes = [
            key
            for key in sorted(earlier.weights.keys() | run.weights.keys())
            if earlier.weights.get(key) != run.weights.get(key)
        ]
        if earlier.dataset_digest != run.dataset_digest:
            changes.append(run.dataset)
        raise RunError(
            f"{folder}: holds run {earlier.fingerprint}; this would be run {run.fingerprint}, with "
            f"other {', '.join(changes) or 'settings'}. Train the preset again for a new run, or "
            "undo the change to continue"
        )
    write_statistics(earlier, folder)
    return earlier


def write_statistics(run: RunIdentity, folder: Path) -> None:
    """Write ``statistics.json``: statistics of the data set that standardise the model's inputs.

    Args:
        run: identity of the run.
        folder: folder of the run.

    Raises:
        DataError: if the data set is missing.
    """
    contents = find_task(run.settings.TASK).statistics(run.settings, Path(run.dataset))
    write_json(folder / STATISTICS, {"schema": STATISTICS_SCHEMA, **contents})
