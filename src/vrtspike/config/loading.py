"""Presets: a file, its parents, overrides, and one typed, frozen object."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from pathlib import Path

from vrtspike.config.checking import validate
from vrtspike.config.merging import canonical, overlay, parse_overrides
from vrtspike.config.reading import Document, read_yaml
from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import ConfigError
from vrtspike.problems import DEFAULT, find_problem

BASE = "BASE"
"""The key that names a preset's parent; it stands in files only."""
TASK = "TASK"
"""The key that names its problem."""

_ADVICE = "Every key is explained in config/README.md."


def load_preset(path: str | Path, overrides: Sequence[str] = ()) -> RunSettings:
    """Load a preset file, its parents (``BASE``) and overrides such as ``TRAIN.BATCH_SIZE=2``.

    Raises:
        ConfigError: naming file, line, key, what was found and what is allowed.
    """
    return settings_from(laid_over(read_preset(path), parse_overrides(overrides)))


def laid_over(preset: Document, above: Document) -> Document:
    """Keys laid over a preset, in the spelling of its problem.

    Args:
        preset: as :func:`read_preset` gives it.
        above: keys as somebody wrote them; a TASK among them decides.
    """
    return overlay(preset, canonical(above, settings_class(overlay(preset, above)).aliases))


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
            raise ConfigError(f"{chain[0]}: BASE goes in a circle: {names}")
        chain.append(path)
        document = read_yaml(path)
        _require_base_spelled(document)
        base = document.tree.pop(BASE, None)
        layers.append(document)
        if base is None:
            break
        path = _parent(path, base, document.places[(BASE,)])
    # The problem, and with it how keys may be spelled, may be named by a parent alone.
    aliases = settings_class(
        next((each for each in layers if TASK in each.tree), layers[0])
    ).aliases
    result = Document({})
    for layer in reversed(layers):
        result = overlay(result, canonical(layer, aliases))
    return result


def _require_base_spelled(document: Document) -> None:
    """Refuse what was meant as ``BASE``: no schema knows that key, so none would suggest it."""
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
    task = document.tree.get(TASK, DEFAULT)
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


def settings_from(document: Document) -> RunSettings:
    """Validate a document as a preset, with what its problem and the old worker key put in."""
    kind = settings_class(document)
    document = kind.completed(canonical(document, kind.aliases))
    settings = validate(kind, document, _ADVICE)
    if settings.TRAIN.NUM_WORKERS is None:
        return settings
    if "DATALOADER" in document.tree:
        warnings.warn(
            "TRAIN.NUM_WORKERS is an old name and is ignored: DATALOADER is given.",
            DeprecationWarning,
            stacklevel=2,
        )
        return settings
    warnings.warn(
        "TRAIN.NUM_WORKERS is an old name; use DATALOADER.TRAIN_WORKERS.",
        DeprecationWarning,
        stacklevel=2,
    )
    loader = settings.DATALOADER.model_copy(update={"TRAIN_WORKERS": settings.TRAIN.NUM_WORKERS})
    return settings.model_copy(update={"DATALOADER": loader})


def missing_files(settings: RunSettings) -> dict[str, str]:
    """The paths that do not exist among the files a run would read, by the key that names them."""
    named = settings.named_files
    return {key: path for key, path in named.items() if path and not Path(path).is_file()}


def check_files(settings: RunSettings) -> None:
    """Refuse paths that do not exist among the files a run would read.

    Raises:
        ConfigError: naming the key and the path.
    """
    missing = [f"{key}: no such file: {path}" for key, path in missing_files(settings).items()]
    if missing:
        raise ConfigError("\n".join([*missing, "Give an existing file, or remove the key."]))
