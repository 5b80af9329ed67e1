"""Reading of the workflow's configuration: ``config/config.yaml``, its overlays, and presets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from vrtspike.config.checking import fields_of, validate_document
from vrtspike.config.loading import (
    build_settings,
    merge_documents,
    read_preset,
    task_name,
    with_current_keys,
)
from vrtspike.config.preset_files import PresetFiles, find_presets, misnamed
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.sweeps import read_sweeps
from vrtspike.config.tasks import TASKS, find_task
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.workflow_schema import WorkflowSettings, workflow_schema
from vrtspike.config.yaml_documents import (
    Document,
    KeyPath,
    document_from_tree,
    parse_config_words,
    parse_overrides,
    read_yaml,
)
from vrtspike.system.errors import ConfigError
from vrtspike.system.home import CONFIG, require_project

T = TypeVar("T")

_ADVICE = "The keys of config/config.yaml are explained in config/README.md."


def load_workflow_config(
    configfiles: Sequence[str | Path], overrides: Mapping[str, Any] | None = None
) -> WorkflowConfig:
    """Read the configuration files in order (later ones win) and every preset.

    Args:
        configfiles: ``config/config.yaml`` and the overlays named by ``--configfile``.
        overrides: values of ``--config``, as a mapping of top-level keys.

    Raises:
        ConfigError: if a file is missing or not YAML, a key is unknown or its value not allowed, or
            no preset is valid.
    """
    layers = [*map(read_yaml, configfiles), document_from_tree(overrides or {}, "--config")]
    document = merge_documents(layers)
    settings = validate_document(workflow_schema(), document, _ADVICE)
    overriding = [_below(layer, "SETTINGS") for layer in layers]
    overriding.append(_overrides_of_set(settings))
    above = merge_documents([with_current_keys(layer) for layer in overriding])
    # Keys of config/config.yaml that presets of a task may override.
    beneath = {}
    for name in TASKS:
        defaults = document_from_tree(find_task(name).SETTINGS.preset_defaults(settings), "")
        beneath[name] = with_current_keys(Document(defaults.values, document.locations))
    files = find_presets(Path(settings.PRESET_DIR))
    presets, broken = _read_presets(files, beneath, above)
    broken |= misnamed(Path(settings.PRESET_DIR), files.trainings)
    if not presets:
        raise ConfigError(_no_preset(settings, broken))
    sweeps = read_sweeps(Path(settings.SWEEP_DIR), presets, broken)
    workflow = WorkflowConfig(settings, presets, broken, sweeps, files.notes)
    _require_known_presets(workflow, document, "PRESETS", workflow.preset_names)
    _require_known_presets(workflow, document, "RETRAIN", [*workflow.trainings, *workflow.sweeps])
    return workflow


def _overrides_of_set(settings: WorkflowSettings) -> Document:
    """Return the keys of SET.

    Raises:
        ConfigError: if an override is invalid, or a key is given twice.
    """
    pieces = settings.set_pieces
    overrides = parse_overrides(pieces, "SET")
    keys = [piece.partition("=")[0].strip() for piece in pieces]
    for key, count in Counter(keys).items():
        if count > 1:
            raise ConfigError(f"SET gives {key} {count} times; keep one")
    return overrides


def _read_presets(
    files: PresetFiles, beneath: Mapping[str, Document], above: Document
) -> tuple[dict[str, RunSettings], dict[str, str]]:
    """Return the valid presets of a project by name, and the faults of the others.

    Args:
        files: files of the presets.
        beneath: keys of the workflow that a preset may override, by its task.
        above: keys that override every preset's.
    """
    presets: dict[str, RunSettings] = {}
    broken: dict[str, str] = {}
    for name, path in files.trainings.items():
        try:
            documents = read_preset(path)
            task = task_name(merge_documents([*documents, above]))
            layers = [beneath[task], *documents, keys_of_task(above, task)]
            presets[name] = build_settings(merge_documents(layers))
        except ConfigError as error:
            broken[name] = str(error)
    return presets, broken


def _no_preset(settings: WorkflowSettings, broken: Mapping[str, str]) -> str:
    """Describe that no preset is valid: the faults, each line once, or the empty folder."""
    lines = dict.fromkeys("\n".join(broken.values()).splitlines())
    if lines:
        return "\n".join(lines)
    return (
        f"PRESET_DIR is {settings.PRESET_DIR!r}: found no preset (*.yaml) there; set it to the "
        "folder of the presets"
    )


def _require_known_presets(
    workflow: WorkflowConfig, document: Document, key: str, allowed: Collection[str]
) -> None:
    """Check the presets that a key names.

    Raises:
        ConfigError: if one is named twice, or is not allowed.
    """
    location = document.locations.get((key,), key)
    for preset, count in Counter(getattr(workflow.settings, key)).items():
        if count > 1:
            raise ConfigError(f"{location}: {key} names {preset!r} twice; remove one")
        if preset not in allowed:
            raise ConfigError(
                f"{location}: {key} names {preset!r}; presets in "
                f"{workflow.settings.PRESET_DIR}: {', '.join(workflow.preset_names)}"
            )


def _below(document: Document, section: str) -> Document:
    """Return the keys of a section as a document, named without the section."""
    return Document(
        _entries_below(document.values, section), _entries_below(document.locations, section)
    )


def _entries_below(entries: Mapping[KeyPath, T], section: str) -> dict[KeyPath, T]:
    return {
        path[1:]: entry for path, entry in entries.items() if path[0] == section and len(path) > 1
    }


def keys_of_task(document: Document, task: str) -> Document:
    """Return the overrides of all presets that apply to one task.

    Keys that only other tasks have are removed. Keys that no task has stay, so that
    validation rejects them.

    Args:
        document: overrides of all presets.
        task: name of the task.
    """
    keys = {name: dict(fields_of(find_task(name).SETTINGS)).keys() for name in TASKS}
    others = set().union(*keys.values()) - keys[task]
    values = {path: value for path, value in document.values.items() if path not in others}
    return Document(values, document.locations)


def run_folders() -> tuple[Path, Path]:
    """Return the folders with the runs of presets: RUNS, and ``train`` in RESULTS.

    Those of ``config/config.yaml`` in the working directory, or the defaults without one.

    Raises:
        ConfigError: if the configuration is invalid.
    """
    document = read_yaml(CONFIG) if CONFIG.is_file() else document_from_tree({}, "")
    settings = validate_document(workflow_schema(), document, _ADVICE)
    return Path(settings.RUNS), Path(settings.RESULTS) / "train"


def load_project_config(configfiles: Sequence[Path], overrides: Sequence[str]) -> WorkflowConfig:
    """Read the configuration of the project in the working directory.

    Args:
        configfiles: overlays of ``config/config.yaml``.
        overrides: words of ``--config``.

    Raises:
        UserError: if there is no configuration here, or it is invalid.
    """
    require_project()
    return load_workflow_config([CONFIG, *configfiles], parse_config_words(overrides).tree)
