"""Presets: from a file, its parents and overrides to typed settings; variants of ablations."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from vrtspike.config.checking import validate
from vrtspike.config.documents import (
    Document,
    canonical,
    document_of_values,
    overlay,
    parse_overrides,
    read_yaml,
)
from vrtspike.config.problems import PROBLEMS, find_problem
from vrtspike.config.run_schema import DEFAULT_TASK, Ablation, RunSettings, Variant
from vrtspike.errors import ConfigError

BASE = "BASE"
"""The key of a preset's parent; it is only in files, not in the schema."""
TASK = "TASK"
"""The key of a preset's problem."""

_PACKAGES = {"WANDB": ("wandb", "wandb"), "MLFLOW": ("mlflow", "mlflow-skinny")}
"""By key of LOG: the imported module and its package."""
_ADVICE = "Every key is explained in config/README.md."


def load_preset(path: str | Path, overrides: Sequence[str] = ()) -> RunSettings:
    """Load a preset file, its parents (``BASE``) and overrides such as ``TRAIN.BATCH_SIZE=2``.

    Raises:
        ConfigError: naming file, line, key, what was found and what is allowed.
    """
    return build_settings(merge_overrides(read_preset(path), parse_overrides(overrides)))


def merge_overrides(preset: Document, above: Document) -> Document:
    """A preset merged with overrides, with the schema's names of keys.

    Args:
        preset: from :func:`read_preset`.
        above: overrides; they may change TASK.
    """
    return overlay(preset, canonical(above, settings_class(overlay(preset, above)).aliases))


def override_settings(
    settings: RunSettings, overrides: Sequence[str], place: str, origin: str = "--set"
) -> RunSettings:
    """Complete settings with overrides.

    Args:
        settings: complete.
        overrides: such as ``TRAIN.BATCH_SIZE=2``.
        place: source of the settings, for messages.
        origin: source of the overrides, for messages.

    Raises:
        ConfigError: if a key or a value is wrong.
    """
    return override_with_document(settings, parse_overrides(overrides, origin), place)


def override_with_document(settings: RunSettings, above: Document, place: str) -> RunSettings:
    """As :func:`override_settings`, with a document of overrides."""
    given = document_of_values(settings.model_dump(mode="json"), place)
    return build_settings(merge_overrides(given, above))


def preset_base(path: str | Path) -> str | None:
    """The name that a preset file gives as its ``BASE``; None where it has none.

    Raises:
        ConfigError: if the file cannot be read.
    """
    base = read_yaml(path).tree.get(BASE)
    return None if base is None else str(base)


def read_preset(path: str | Path) -> Document:
    """A preset and its parents as one document, not yet validated.

    ``BASE: name`` means ``name.yaml`` in the same folder.
    """
    path = Path(path)
    chain: list[Path] = []
    layers: list[Document] = []
    while True:
        if path in chain:
            names = " -> ".join(p.name for p in [*chain, path])
            raise ConfigError(f"{chain[0]}: BASE is circular: {names}; remove one of them")
        chain.append(path)
        document = read_yaml(path)
        _refuse_misspelled_base(document)
        base = document.tree.pop(BASE, None)
        layers.append(document)
        if base is None:
            break
        path = _parent(path, base, document.places[(BASE,)])
    # TASK, and with it the aliases, may be inherited from a parent.
    aliases = settings_class(
        next((each for each in layers if TASK in each.tree), layers[0])
    ).aliases
    result = Document({})
    for layer in reversed(layers):
        result = overlay(result, canonical(layer, aliases))
    return result


def _refuse_misspelled_base(document: Document) -> None:
    """Refuse misspellings of ``BASE``, which is not in the schema that suggests names."""
    known = [BASE, *settings_class(document).model_fields]
    for name in document.tree:
        meant = difflib.get_close_matches(name.upper(), known, n=1)
        if name not in known and meant == [BASE]:
            raise ConfigError(
                f"{document.places[(name,)]}: unknown key {name}; did you mean {BASE}?"
            )


def _parent(path: Path, base: object, place: str) -> Path:
    """The file of the preset that ``path`` names as its ``BASE``."""
    parent = path.parent / f"{base}.yaml"
    if isinstance(base, str) and parent.name == f"{base}.yaml" and parent.is_file():
        return parent
    names = sorted(other.stem for other in path.parent.glob("*.yaml") if other != path)
    near = difflib.get_close_matches(str(base).removesuffix(".yaml"), names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"presets there: {', '.join(names) or 'none'}"
    raise ConfigError(
        f"{place}: BASE is {base!r}, but there is no preset of that name in {path.parent}; {hint}"
    )


def task_of(document: Document) -> str:
    """The problem that a document names.

    Raises:
        ConfigError: if there is no such problem.
    """
    task = document.tree.get(TASK, DEFAULT_TASK)
    try:
        find_problem(task)
    except ConfigError as error:
        raise ConfigError(f"{document.places.get((TASK,), 'settings')}: {error}") from None
    return str(task)


def settings_class(document: Document) -> type[RunSettings]:
    """The class of presets of the problem that a document names.

    Raises:
        ConfigError: if there is no such problem.
    """
    return find_problem(task_of(document)).SETTINGS


def build_settings(document: Document) -> RunSettings:
    """Validate a document as a preset."""
    kind = settings_class(document)
    return validate(kind, kind.completed(canonical(document, kind.aliases)), _ADVICE)


def missing_files(settings: RunSettings) -> dict[str, str]:
    """Missing files that a training would read, by key."""
    named = settings.named_files
    return {key: path for key, path in named.items() if path and not Path(path).is_file()}


def check_files(settings: RunSettings) -> None:
    """Refuse missing files that a training would read.

    Raises:
        ConfigError: naming the key and the path.
    """
    missing = [f"{key}: no such file: {path}" for key, path in missing_files(settings).items()]
    if missing:
        raise ConfigError("\n".join([*missing, "Give an existing file, or remove the key."]))


def check_packages(settings: RunSettings) -> None:
    """Refuse loggers whose package is not installed.

    Raises:
        ConfigError: naming the key and the package.
    """
    for key, (module, package) in _PACKAGES.items():
        if getattr(settings.LOG, key) is not None and importlib.util.find_spec(module) is None:
            raise ConfigError(
                f"LOG.{key} needs the package {package}, which is not installed: "
                f"pip install {package}, or remove the key"
            )


def all_variant_suffixes() -> list[str]:
    """The suffixes of all variants of all problems."""
    ablations = (find_problem(task).SETTINGS.ablation for task in PROBLEMS)
    return [variant.suffix for ablation in ablations if ablation for variant in ablation.variants]


def require_ablation(preset: str, settings: RunSettings) -> Ablation:
    """The ablation of a preset's problem.

    Raises:
        ConfigError: if its problem has no ablation.
    """
    if settings.ablation is None:
        raise ConfigError(
            f"preset {preset}: TASK is {settings.TASK}, which has no ablation; set PRESETS to "
            "presets of another task"
        )
    return settings.ablation


def derive(preset: str, settings: RunSettings, variant: Variant) -> RunSettings:
    """The settings of a variant of a preset.

    Args:
        preset: name of the preset, for messages.
        settings: of the preset.
        variant: which one.

    Raises:
        ConfigError: if the preset lacks what the ablation removes, or the changed settings are
            invalid.
    """
    needs = require_ablation(preset, settings).needs
    found = {key: settings.value(key) for key in needs}
    if found != needs:
        key = next(key for key in needs if found[key] != needs[key])
        wanted = " and ".join(f"{name} {_text(value)}" for name, value in needs.items())
        raise ConfigError(
            f"preset {preset}: {key} is {_text(found[key])}; an ablation needs a preset with "
            f"{wanted}: set PRESETS to such a preset, or remove the key"
        )
    try:
        return override_settings(settings, [variant.override], f"preset {preset}{variant.suffix}")
    except ConfigError as error:
        raise ConfigError(
            f"preset {preset} has no ablation with {variant.label}: {error}"
        ) from error


def _text(value: object) -> str:
    """A value in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
