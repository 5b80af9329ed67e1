"""Layers of configuration: later ones win key by key, and each key remembers its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vrtspike.config.aliases import Aliases, KeyPath, canonical_keys
from vrtspike.config.reading import Document, parse_yaml
from vrtspike.errors import ConfigError


def canonical(document: Document, aliases: Aliases) -> Document:
    """The document with every key spelled as in the schema.

    Args:
        document: a preset's keys.
        aliases: of the preset's problem.

    Raises:
        ConfigError: if a key is given under two names with different values, or one that decides
            nothing asks for what there is not.
    """
    try:
        tree = canonical_keys(document.tree, aliases, document.places)
    except ValueError as error:
        place = next(iter(document.places.values()), "settings")
        raise ConfigError(f"{place.rsplit(':', 1)[0]}: {error}") from None
    renamed = aliases.renamed
    return Document(
        tree, {renamed.get(path, path): place for path, place in document.places.items()}
    )


def overlay(lower: Document, upper: Document) -> Document:
    """``upper`` laid over ``lower``: mappings are merged, everything else is replaced.

    >>> overlay(Document({"DATA": {"K": 32, "ROOT": "a"}}), Document({"DATA": {"K": 8}})).tree
    {'DATA': {'K': 8, 'ROOT': 'a'}}
    """
    tree = _merge(lower.tree, upper.tree)
    return Document(tree, lower.places | upper.places)


def _merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    result = dict(lower)
    for key, value in upper.items():
        known = result.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            result[key] = _merge(known, value)
        else:
            result[key] = value
    return result


def section(document: Document, name: str, *, nested: bool = False) -> Document:
    """The part of a document under one top-level key, as a document of its own.

    Args:
        document: where to look; the key may be absent or null.
        name: the top-level key.
        nested: keep the key as the result's only top-level key instead of taking it off.

    >>> section(Document({"DATA": {"K": 8}, "SEED": 1}), "DATA").tree
    {'K': 8}
    """
    tree = document.tree.get(name)
    places = {path: place for path, place in document.places.items() if path[:1] == (name,)}
    if nested:
        return Document({name: tree} if tree else {}, places)
    return Document(tree or {}, {path[1:]: place for path, place in places.items()})


def parse_overrides(overrides: Sequence[str], origin: str = "--set") -> Document:
    """``["TRAIN.BATCH_SIZE=2", "MODEL.USE_SPIKE=false"]`` as a document; values are YAML.

    Raises:
        ConfigError: if an override is not ``KEY.SUBKEY=value`` or its value is not YAML.

    >>> parse_overrides(["TRAIN.OPTIM.LR=1e-3", "MODEL.USE_SPIKE=false"]).tree
    {'TRAIN': {'OPTIM': {'LR': 0.001}}, 'MODEL': {'USE_SPIKE': False}}
    """
    result = Document({})
    for override in overrides:
        name, equals, text = override.partition("=")
        keys = [part.strip() for part in name.split(".")]
        if not equals or not all(keys):
            raise ConfigError(
                f"{origin} {override!r}: expected KEY=value, for example TRAIN.BATCH_SIZE=2"
            )
        value: Any = parse_yaml(f"value: {text}", f"{origin} {override}").tree["value"]
        path: KeyPath = tuple(keys)
        for key in reversed(keys):
            value = {key: value}
        result = overlay(result, Document(value, {path: f"{origin} {name.strip()}"}))
    return result
