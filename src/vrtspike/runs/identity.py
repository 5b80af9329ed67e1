"""What a run is: the settings, the data and the weights that decide its result.

Code is not part of it: who renames a helper does not want to train for three days again. Which code
trained a run stands beside its results (:mod:`vrtspike.runs.code`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from vrtspike.config.fields import decides_results
from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import ConfigError, RunError
from vrtspike.files import json_digest, read_json, write_json
from vrtspike.problems import DEFAULT, find_problem
from vrtspike.runs.names import SETTINGS
from vrtspike.runs.weight_files import weight_digests

SCHEMA = 2


@dataclass(frozen=True)
class RunIdentity:
    """A run; ``settings.json``, in its folder and published, is this and nothing else.

    Attributes:
        name: the preset.
        settings: complete.
        dataset: path of the dataset manifest.
        fingerprint: digest of what decides the result; names the folder.
        dataset_digest: of the contents of the data set; None where that is not this project's.
        weights: SHA-256 of each file of weights that enters, by the key that names it.
    """

    name: str
    settings: RunSettings
    dataset: str
    fingerprint: str
    dataset_digest: str | None = None
    weights: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write ``settings.json``."""
        contents = {
            "schema": SCHEMA,
            "name": self.name,
            "fingerprint": self.fingerprint,
            "dataset": self.dataset,
            "dataset_digest": self.dataset_digest,
            "weights": dict(self.weights),
            "settings": self.settings.model_dump(mode="json"),
        }
        write_json(folder / SETTINGS, contents)

    @classmethod
    def read(cls, folder: Path) -> RunIdentity:
        """Read ``settings.json``.

        Raises:
            RunError: if it is missing, not such a file, or of another version of this project.
        """
        path = folder / SETTINGS
        if not path.is_file():
            raise RunError(
                f"{path}: no such file; expected the folder of a run (runs/<preset>/<fingerprint>) "
                "or of its published result (results/train/<preset>)"
            )
        found = _contents(path)
        if found.get("schema") != SCHEMA:
            raise RunError(
                f"{path}: not the settings of a run as this version writes them: found schema "
                f"{found.get('schema')}, expected {SCHEMA}; train the preset again, or use the "
                "version of this project that trained it"
            )
        try:
            kind = find_problem(found["settings"].get("TASK", DEFAULT)).SETTINGS
            settings = kind.model_validate(found["settings"])
            return cls(
                found["name"],
                settings,
                found["dataset"],
                found["fingerprint"],
                found["dataset_digest"],
                found["weights"],
            )
        except ConfigError as error:
            raise RunError(f"{path}: {error}") from error
        except KeyError as error:
            raise RunError(
                f"{path}: not the settings of a run, {error.args[0]} is missing"
            ) from error
        except ValidationError as error:
            raise RunError(
                f"{path}: written by another version of this project ({error})"
            ) from error


def _contents(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except ValueError as error:
        raise RunError(f"{path}: damaged, no JSON ({error}); train the preset again") from error
    return found if isinstance(found, dict) else {}


def identify(name: str, settings: RunSettings, dataset: Path) -> RunIdentity:
    """Name a run by what decides its result: settings, contents of the data set, and weights.

    Args:
        name: the preset.
        settings: complete.
        dataset: the dataset manifest.

    Raises:
        DataError: if there is no such dataset manifest, or not one of this version.
        ConfigError: if the data set does not suit the settings.
        RunError: if a file of weights is not there.
    """
    problem = find_problem(settings.TASK)
    digest = problem.dataset_digest(dataset)
    weights = weight_digests(problem.training_weights(settings))
    problem.check_data(dataset, settings)
    decisive = {
        "settings": result_settings(settings),
        "dataset": digest,
        "weights": weights,
    }
    fingerprint = json_digest(decisive)[:12]
    return RunIdentity(name, settings, str(dataset.resolve()), fingerprint, digest, weights)


def result_settings(settings: RunSettings) -> dict[str, Any]:
    """The settings that decide a trained model: no workers, intervals, paths or memory bounds.

    The interval of validations counts only where early stopping watches them; the evaluation's
    settings never do (see :func:`evaluation_settings`), and of weights the contents count, which
    :func:`identify` adds.
    """
    result = _decisive(settings)
    del result["TEST"]
    for section, name in settings.idle:
        del result[section][name]
    if settings.TRAIN.EARLY_STOPPING is not None:
        result["LOG"]["VAL_EVERY_STEPS"] = settings.LOG.VAL_EVERY_STEPS
    return result


def evaluation_settings(settings: RunSettings) -> dict[str, Any]:
    """The settings that decide the evaluation of given weights."""
    return {"TEST": _decisive(settings.TEST)}


def _decisive(section: BaseModel) -> dict[str, Any]:
    dumped = section.model_dump(mode="json")
    for name, schema in type(section).model_fields.items():
        value = getattr(section, name)
        if not decides_results(schema):
            del dumped[name]
        elif isinstance(value, BaseModel):
            dumped[name] = _decisive(value)
    return dumped
