"""YAML files with the line of every key; duplicate keys are errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from vrtspike.config.aliases import Aliases, KeyPath, canonical_keys, dotted
from vrtspike.errors import ConfigError


@dataclass(frozen=True)
class Document:
    """A mapping, and the place ("file:line") of each of its keys."""

    tree: dict[str, Any]
    places: dict[KeyPath, str] = field(default_factory=dict)


def document_of_values(tree: dict[str, Any], place: str) -> Document:
    """A document that is no file, such as a command line's values; all keys have one place."""
    return Document(tree, dict.fromkeys(_paths(tree, ()), place))


def _paths(tree: dict[str, Any], prefix: KeyPath) -> Iterator[KeyPath]:
    for name, value in tree.items():
        yield (*prefix, name)
        if isinstance(value, dict):
            yield from _paths(value, (*prefix, name))


def read_yaml(path: str | Path) -> Document:
    """Read one YAML 1.2 file whose top level is a mapping (an empty file is an empty mapping).

    Raises:
        ConfigError: if the file is missing or is not YAML, if its top level is no mapping, or if a
            key is given twice in one mapping.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; expected a YAML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as text: {error}") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str) -> Document:
    """As :func:`read_yaml`, for text; ``name`` is the file's name in messages.

    >>> parse_yaml("DATA: {NUM_VOXEL_BINS: 8}", "preset.yaml").places
    {('DATA',): 'preset.yaml:1', ('DATA', 'NUM_VOXEL_BINS'): 'preset.yaml:1'}
    """
    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(text)
        if node is None:
            return Document({})
        if not isinstance(node, MappingNode):
            raise ConfigError(f"{name}:1: the top level must be a mapping of keys to values")
        reader = _Reader(yaml, name)
        return Document(reader.value(node, ()), reader.places)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{name}{line}: not YAML: {error.problem or error.context}") from error
    except YAMLError as error:
        raise ConfigError(f"{name}: not YAML: {error}") from error


class _Reader:
    """Converts a node to plain values and collects the line of each key and item."""

    def __init__(self, yaml: YAML, name: str) -> None:
        self.places: dict[KeyPath, str] = {}
        self._yaml = yaml
        self._name = name
        self._open: list[Node] = []

    def value(self, node: Node, path: KeyPath) -> Any:  # noqa: ANN401 - a YAML value
        if not isinstance(node, MappingNode | SequenceNode):
            return self._scalar(node)
        if any(node is outer for outer in self._open):
            raise ConfigError(
                f"{self._place(node)}: {dotted(path)} contains itself (*); remove the alias"
            )
        self._open.append(node)
        found: Any = self._mapping(node, path) if isinstance(node, MappingNode) else []
        if isinstance(node, SequenceNode):
            for index, item in enumerate(node.value):
                self._note(item, (*path, index))
                found.append(self.value(item, (*path, index)))
        self._open.pop()
        return found

    def _scalar(self, node: Node) -> Any:  # noqa: ANN401 - a YAML value
        try:
            return self._yaml.constructor.construct_object(node)
        except ValueError as error:  # an invalid date
            raise ConfigError(f"{self._place(node)}: found {node.value!r}: {error}") from error

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        first_line: dict[str, int] = {}
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(self._yaml.constructor.construct_object(key_node))
            line = key_node.start_mark.line + 1
            if key in first_line:
                raise ConfigError(
                    f"{self._name}: key {dotted((*path, key))} is given twice, at line "
                    f"{first_line[key]} and at line {line}; put everything under one"
                )
            first_line[key] = line
            self._note(key_node, (*path, key))
            result[key] = self.value(value_node, (*path, key))
        return result

    def _note(self, node: Node, path: KeyPath) -> None:
        self.places[path] = self._place(node)

    def _place(self, node: Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"


def canonical(document: Document, aliases: Aliases) -> Document:
    """The document with the schema's names of keys.

    Args:
        document: a preset's keys.
        aliases: of the preset's problem.

    Raises:
        ConfigError: as :func:`canonical_keys` raises a ValueError.
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
    """``upper`` merged over ``lower``: mappings are merged, everything else is replaced.

    >>> overlay(Document({"A": {"B": 32, "C": "c"}}), Document({"A": {"B": 8}})).tree
    {'A': {'B': 8, 'C': 'c'}}
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
    """The part of a document under one top-level key, as a document.

    Args:
        document: the key may be absent or null in it.
        name: the top-level key.
        nested: whether the result keeps the key as its only top-level key.

    >>> section(Document({"DATA": {"NUM_VOXEL_BINS": 8}, "SEED": 1}), "DATA").tree
    {'NUM_VOXEL_BINS': 8}
    """
    tree = document.tree.get(name)
    places = {path: place for path, place in document.places.items() if path[:1] == (name,)}
    if nested:
        return Document({name: tree} if tree else {}, places)
    return Document(tree or {}, {path[1:]: place for path, place in places.items()})


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted keys as a tree.

    >>> nested({"TRAIN.EMA": 0.9, "TRAIN.OPTIM.LR": 1e-3})
    {'TRAIN': {'EMA': 0.9, 'OPTIM': {'LR': 0.001}}}
    """
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        inner = tree
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
    return tree


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
        places: dict[KeyPath, str] = {tuple(keys): f"{origin} {name.strip()}"}
        result = overlay(result, Document(nested({".".join(keys): value}), places))
    return result
