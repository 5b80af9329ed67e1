"""YAML files as values by key, with the line of every key; duplicate keys are errors."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from vrtspike.io.flatten import leaves
from vrtspike.system.errors import ConfigError

_MAX_ENTRIES = 200_000
"""Keys and items of a file; nested aliases can expand to billions."""

KeyPath = tuple[str | int, ...]
"""A key with the sections around it, such as ``("TRAIN", "OPTIM", "LR")``."""


@dataclass(frozen=True)
class Document:
    """Values by key; a later value replaces an earlier one that it contradicts.

    Attributes:
        values: values of keys; sections are included only if they are empty.
        locations: "file:line" of each key, section and item of a list.
    """

    values: dict[KeyPath, Any]
    locations: dict[KeyPath, str]

    @property
    def tree(self) -> dict[str, Any]:
        """The values as nested mappings."""
        tree: dict[str, Any] = {}
        for path, value in self.values.items():
            section: dict[Any, Any] = tree
            for name in path[:-1]:
                if not isinstance(section.get(name), dict):
                    section[name] = {}
                section = section[name]
            if value != {} or not isinstance(section.get(path[-1]), dict):
                section[path[-1]] = {} if value == {} else value
        return tree


def dotted_key(path: KeyPath) -> str:
    """Return the dotted name of a path, such as ``TRAIN.OPTIM.LR``.

    >>> dotted_key(("TRAIN", "BETAS", 0))
    'TRAIN.BETAS.0'
    """
    return ".".join(str(part) for part in path)


def unflatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree of values that are given by dotted keys.

    >>> unflatten({"TRAIN.EMA": 0.9, "TRAIN.OPTIM.LR": 1e-3})
    {'TRAIN': {'EMA': 0.9, 'OPTIM': {'LR': 0.001}}}
    """
    return Document({tuple(key.split(".")): value for key, value in values.items()}, {}).tree


def document_from_tree(tree: Mapping[str, Any], location: str) -> Document:
    """Convert a tree without a file, such as a command line's values; all keys have one place."""
    values = dict(leaves(tree))
    locations = {}
    for path in values:
        for end in range(1, len(path) + 1):
            locations[path[:end]] = location
    return Document(values, locations)


def read_yaml(path: str | Path) -> Document:
    """Read one YAML 1.2 file whose top level is a mapping (an empty file is an empty mapping).

    Raises:
        ConfigError: if the file is missing or is not YAML, its top level is not a mapping, or a
            mapping has a key twice.
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
    """Parse text as :func:`read_yaml` does a file; ``name`` is the file's name in messages.

    >>> parse_yaml("DATA: {NUM_VOXEL_BINS: 8}", "preset.yaml").locations
    {('DATA',): 'preset.yaml:1', ('DATA', 'NUM_VOXEL_BINS'): 'preset.yaml:1'}
    """
    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(text)
        if node is None:
            return Document({}, {})
        if not isinstance(node, MappingNode):
            raise ConfigError(f"{name}:1: the top level must be a mapping of keys to values")
        locations = dict(itertools.islice(_places(node, (), name), _MAX_ENTRIES + 1))
        if len(locations) > _MAX_ENTRIES:
            raise ConfigError(
                f"{name}: more than {_MAX_ENTRIES} keys and items, those of aliases (*) included; "
                "this is no configuration"
            )
        return Document(dict(leaves(yaml.constructor.construct_document(node))), locations)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{name}{line}: not YAML: {error.problem or error.context}") from error
    except (YAMLError, ValueError) as error:  # ValueError: an invalid date
        raise ConfigError(f"{name}: not YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: an alias (*) contains itself; remove it") from error


def _places(node: Node, path: KeyPath, name: str) -> Iterator[tuple[KeyPath, str]]:
    """Yield the place of each key and item.

    Raises:
        ConfigError: if a key is given twice.
    """
    entries: list[tuple[Any, Node, Node]] = []
    if isinstance(node, MappingNode):
        entries = [(str(key.value), key, value) for key, value in node.value]
    elif isinstance(node, SequenceNode):
        entries = [(index, item, item) for index, item in enumerate(node.value)]
    lines: dict[Any, int] = {}
    for key, start, value in entries:
        line = start.start_mark.line + 1
        if key in lines:
            raise ConfigError(
                f"{name}: key {dotted_key((*path, key))} is given twice, at line {lines[key]} and "
                f"at line {line}; put everything under one"
            )
        lines[key] = line
        yield (*path, key), f"{name}:{line}"
        yield from _places(value, (*path, key), name)


def overlay(lower: Document, upper: Document) -> Document:
    """Merge ``upper`` over ``lower``: sections are merged, everything else is replaced.

    >>> lower = document_from_tree({"A": {"B": 32, "C": "c"}}, "lower")
    >>> overlay(lower, document_from_tree({"A": {"B": 8}}, "upper")).tree
    {'A': {'C': 'c', 'B': 8}}
    """
    kept = {path: value for path, value in lower.values.items() if path not in upper.values}
    return Document(kept | upper.values, lower.locations | upper.locations)


def parse_config_words(words: Sequence[str]) -> Document:
    """Read the words of ``--config`` as a document; later ones override earlier ones.

    Args:
        words: words of the command line: ``KEY=VALUE`` with a value in YAML, or a JSON mapping, as
            rules pass it.

    Raises:
        ConfigError: if a word is neither.

    >>> parse_config_words(["GPUS=0", '{"DATA": {"K": 8}}', "DATA.ROOT=/x"]).tree
    {'GPUS': 0, 'DATA': {'K': 8, 'ROOT': '/x'}}
    """
    origin = "--config"
    result = Document({}, {})
    for word in words:
        if word.startswith("{"):
            try:
                layer = document_from_tree(json.loads(word), origin)
            except ValueError as error:
                raise ConfigError(
                    f"{origin} {word}: no JSON ({error}); expected KEY=VALUE or a JSON mapping"
                ) from error
        else:
            layer = parse_overrides([word], origin)
        result = overlay(result, layer)
    return result


def parse_overrides(overrides: Sequence[str], origin: str = "--set") -> Document:
    """Read overrides such as ``["TRAIN.BATCH_SIZE=2", "MODEL.USE_SPIKE=false"]``; values are YAML.

    Raises:
        ConfigError: if an override is not ``KEY.SUBKEY=value``, or its value is not YAML or has a
            comment.

    >>> parse_overrides(["TRAIN.OPTIM.LR=1e-3", "MODEL.USE_SPIKE=false"]).tree
    {'TRAIN': {'OPTIM': {'LR': 0.001}}, 'MODEL': {'USE_SPIKE': False}}
    """
    result = Document({}, {})
    for override in overrides:
        name, equals, text = override.partition("=")
        keys = [part.strip() for part in name.split(".")]
        if not equals or not all(keys):
            raise ConfigError(
                f"{origin} {override!r}: expected KEY=value, for example TRAIN.BATCH_SIZE=2"
            )
        try:
            value = _override_value(text, f"{origin} {override}")
        except ConfigError as error:
            quoted = json.dumps(text.strip(), ensure_ascii=False)
            raise ConfigError(f"{error}; write text in quotes: {name}={quoted}") from error
        result = overlay(result, document_from_tree(unflatten({".".join(keys): value}), origin))
    return result


def _override_value(text: str, name: str) -> Any:  # noqa: ANN401 - any value of YAML
    """Parse the value of an override; ``name`` is that of the override in messages.

    Raises:
        ConfigError: if the value is not YAML, or YAML would ignore a part of it.
    """
    line = f"value: {text}"
    value = parse_yaml(line, name).tree["value"]
    (_, node), *_ = YAML(typ="safe", pure=True).compose(line).value
    ignored = text if text.lstrip().startswith("#") else line[node.end_mark.index :]
    if ignored.strip():
        raise ConfigError(f"{name}: YAML ignores {ignored.strip()!r}, expected only a value")
    return value
