"""Presets: from a file, its parents and overrides to typed settings; variants of ablations."""

from __future__ import annotations

import importlib.util
import json
import os
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from vrtspike.config.ablations import Ablation, Variant
from vrtspike.config.checking import validate_document
from vrtspike.config.deprecated_keys import DeprecatedKeys, replace_deprecated_keys
from vrtspike.config.preset_files import find_presets
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.config.tasks import TASKS, find_task
from vrtspike.config.yaml_documents import (
    Document,
    document_from_tree,
    dotted_key,
    overlay,
    parse_overrides,
    read_yaml,
)
from vrtspike.system.errors import ConfigError

BASE = ("BASE",)
"""Key of a preset's parent."""
TASK = ("TASK",)
"""Key of a preset's task."""

_PACKAGES = {"WANDB": ("wandb", "wandb"), "MLFLOW": ("mlflow", "mlflow-skinny")}
"""Imported module and its package, by key of LOG."""
_ADVICE = "Every key is explained in config/README.md."


def load_preset(path: str | Path, overrides: Sequence[str] = ()) -> RunSettings:
    """Load a preset file, its parents (``BASE``) and overrides such as ``TRAIN.BATCH_SIZE=2``.

    Raises:
        ConfigError: if a file is missing or not YAML, or a key is unknown or its value not allowed.
    """
    return build_settings(
        merge_documents([*read_preset(path), with_current_keys(parse_overrides(overrides))])
    )


def merge_documents(layers: Sequence[Document]) -> Document:
    """Merge layers of settings into one document; later layers override earlier ones.

    A layer that names a data root describes that root. If a later layer names another one, the
    description (:attr:`RunSettings.root_keys`) does not apply any more and is dropped.
    """
    result = Document({}, {})
    for layer in reversed(layers):
        result = overlay(drop_overridden_root(layer, result), result)
    return result


def drop_overridden_root(layer: Document, upper_layer: Document) -> Document:
    """Drop the keys of a layer that describe its data root, if a layer above names another."""
    values = layer.values
    for root, keys in all_root_keys().items():
        if root in values and upper_layer.values.get(root, values[root]) != values[root]:
            values = {path: value for path, value in values.items() if path not in keys}
    return Document(values, layer.locations)


@cache
def all_root_keys() -> Mapping[tuple[str, str], frozenset[tuple[str, str]]]:
    """Return the keys that describe a data root, of all tasks, by the key that names it."""
    return ChainMap(*(dict(find_task(name).SETTINGS.root_keys) for name in TASKS))


def override_settings(settings: RunSettings, overrides: Document, location: str) -> RunSettings:
    """Complete settings with overrides.

    Args:
        settings: complete settings.
        overrides: the overrides; they may change TASK.
        location: source of the settings, for messages.

    Raises:
        ConfigError: if a key or a value is wrong.
    """
    base = document_from_tree(settings.model_dump(mode="json"), location)
    return build_settings(overlay(base, with_current_keys(overrides)))


def with_current_keys(document: Document) -> Document:
    """Replace deprecated keys of a file, or of one source of overrides, by their current names.

    Old names of all tasks are replaced, because TASK may be set in another layer.
    """
    return replace_deprecated_keys(document, all_deprecated_keys())


@cache
def all_deprecated_keys() -> DeprecatedKeys:
    """Return the former names of keys, in presets of any task."""
    return ChainMap(*(dict(find_task(name).SETTINGS.deprecated_keys) for name in TASKS))


def read_preset(path: str | Path, children: Sequence[Path] = ()) -> list[Document]:
    """Read a preset and its parents as documents, not yet validated, the oldest first.

    ``BASE: name`` means ``name.yaml`` in the same folder or among the presets of the workflow.

    Args:
        path: path of the preset.
        children: the presets that inherit from it, the youngest first.
    """
    path = Path(path)
    chain = [*children, path]
    if path in children:
        names = " -> ".join(preset.name for preset in chain)
        raise ConfigError(f"{chain[0]}: BASE is circular: {names}; remove one of them")
    document = with_current_keys(read_yaml(path))
    base = document.values.pop(BASE, None)
    if base is None:
        return [document]
    presets = find_presets(path.parent)
    file = presets.base(str(base), path)
    if file is None:
        raise ConfigError(
            f"{document.locations[BASE]}: BASE is {base!r}, but there is no preset of that name "
            f"in {path.parent}; presets there: {', '.join(sorted(presets.bases))}"
        )
    return [*read_preset(file, chain), document]


def task_name(document: Document) -> str:
    """Return the name of the task of a preset.

    Raises:
        ConfigError: if there is no such task.
    """
    name = document.values.get(TASK, DEFAULT_TASK)
    find_task(name, document.locations.get(TASK, "settings"))
    return str(name)


def build_settings(document: Document) -> RunSettings:
    """Validate a document as a preset.

    Args:
        document: keys of the preset by their current names.
    """
    kind = find_task(task_name(document)).SETTINGS
    for path, read in kind.included_files.items():
        name = document.values.get(path)
        if not isinstance(name, str):
            continue
        file = Path(os.path.expanduser(name))  # noqa: PTH111 - keeps ~ of unknown users
        # A missing file is rejected by require_trainable, before a run starts.
        if file.is_file():
            document = overlay(read(file), document)
    return validate_document(kind, document, _ADVICE)


def require_trainable(
    settings: RunSettings,
    preset: str = "",
    weights: Mapping[str, Path] | None = None,
    remedies: Mapping[str, str] | None = None,
) -> None:
    """Reject settings that cannot be trained, and missing files and packages.

    Args:
        settings: settings of the preset.
        preset: name of the preset, for the message.
        weights: files of weights that must also exist, by key.
        remedies: what to do if one of these is missing, by key.

    Raises:
        ConfigError: naming all of them.
    """
    prefix = f"preset {preset}: " if preset else ""
    included = {
        dotted_key(path): settings.value(dotted_key(path)) for path in settings.included_files
    }
    faults = [
        *_missing_files({**included, **(weights or {})}, remedies or {}),
        *settings.training_faults(),
        *_missing_packages(settings),
    ]
    if faults:
        lines = [f"{prefix}{fault}" for fault in faults]
        raise ConfigError("\n".join([*lines, "Give what is missing, or change the key."]))


def _missing_files(
    files: Mapping[str, str | Path | None], remedies: Mapping[str, str]
) -> Iterator[str]:
    """Yield the faults of keys that name missing files.

    Args:
        files: files by key; empty for none.
        remedies: what to do if a file is missing, by key.
    """
    for key, path in files.items():
        if path and not Path(path).is_file():
            remedy = f"; {remedies[key]}" if key in remedies else ""
            yield f"{key}: no such file: {path}{remedy}"


def _missing_packages(settings: RunSettings) -> Iterator[str]:
    """Yield the faults of keys whose packages are not installed."""
    if settings.TRAIN.OPTIM.TYPE == "adamw8bit" and not _is_installed("bitsandbytes"):
        yield (
            "TRAIN.OPTIM.TYPE adamw8bit needs the package bitsandbytes, which is not installed: "
            "pip install bitsandbytes, or set the key to adamw, whose moments take four times the "
            "memory"
        )
    for key, (module, package) in _PACKAGES.items():
        is_set = getattr(settings.LOG, key) is not None
        if is_set and not _is_installed(module):
            yield (
                f"LOG.{key} needs the package {package}, which is not installed: pip install "
                f"{package}"
            )


def _is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def require_ablation(preset: str, settings: RunSettings) -> Ablation:
    """Return the ablation of a preset's task.

    Raises:
        ConfigError: if its task has no ablation.
    """
    if settings.ablation is None:
        raise ConfigError(
            f"preset {preset}: TASK is {settings.TASK}, which has no ablation; set PRESETS to "
            "presets of another task"
        )
    return settings.ablation


def derive_variant(preset: str, settings: RunSettings, variant: Variant) -> RunSettings:
    """Return the settings of a variant of a preset.

    Args:
        preset: name of the preset, for messages.
        settings: settings of the preset.
        variant: variant of its ablation.

    Raises:
        ConfigError: if the preset trains nothing or lacks what the ablation removes, or the changed
            settings are invalid.
    """
    if settings.unchanged_weights is not None:
        raise ConfigError(
            f"preset {preset}: TRAIN.MAX_STEPS is 0, so that no variant would be trained; set "
            "PRESETS to presets that train, or raise TRAIN.MAX_STEPS"
        )
    for key, required_value in require_ablation(preset, settings).needs.items():
        if settings.value(key) != required_value:
            raise ConfigError(
                f"preset {preset}: {key} is {json.dumps(settings.value(key))}; an ablation needs "
                f"{json.dumps(required_value)}: set PRESETS to presets with it, or remove the key"
            )
    name = f"preset {preset}{variant.suffix}"
    return override_settings(settings, parse_overrides([variant.override], name), name)
