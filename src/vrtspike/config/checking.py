"""Validation of documents by a schema, with one message for all faults."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vrtspike.config.aliases import KeyPath, dotted
from vrtspike.config.documents import Document
from vrtspike.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
_ABSENT = object()


def validate(model: type[Model], document: Document, advice: str) -> Model:
    """Build ``model`` from a document.

    Args:
        model: the schema.
        document: values, with file and line of each key.
        advice: last line of the message, such as where the keys are documented.

    Raises:
        ConfigError: a line for each fault: file, line, key, what was found, what is allowed, and
            for an unknown key the nearest known one.
    """
    try:
        return model.model_validate(document.tree)
    except ValidationError as error:
        faults = [_describe(model, document, detail) for detail in _primary_faults(document, error)]
        raise ConfigError("\n".join([*dict.fromkeys(faults), advice])) from None


def _describe(model: type[BaseModel], document: Document, detail: ErrorDetails) -> str:
    path = _written_path(document.tree, detail["loc"])
    place = _place(document, path)
    name = dotted(path) or "the configuration"
    if detail["type"] == "extra_forbidden":
        return f"{place}: unknown key {name}{_suggestion(model, path)}"
    if detail["type"] == "missing":
        return f"{place}: {dotted(detail['loc'])} is missing"
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "value_error" and (named := _named_key(document, message)):
        return _with_place(_place(document, named), message)
    if detail["type"] == "value_error":
        return _with_place(place, f"{name}: {message}")
    if detail["type"] in ("tuple_type", "list_type"):
        message = "expected a list"
        if isinstance(detail["input"], str | int | float):
            message += f", such as [{detail['input']}]"
    if detail["type"] in ("model_type", "model_attributes_type"):
        message = "expected a section with keys; give some, or remove the line"
    found = f"{name}: found {detail['input']!r}; {message[0].lower()}{message[1:]}"
    return _with_place(place, found)


def _with_place(place: str, message: str) -> str:
    """A fault after its place; a key of the command line, which is its place, is named once."""
    key = f" {message.partition(': ')[0]}"
    return f"{place.removesuffix(key)} {message}" if place.endswith(key) else f"{place}: {message}"


def _named_key(document: Document, message: str) -> KeyPath:
    """The document's key that a message begins with; empty if there is none."""
    first = re.match(r"[A-Z][A-Z_]*(\.[A-Z_]+)+", message)
    path: KeyPath = tuple(first[0].split(".")) if first else ()
    return path if path in document.places else ()


def _primary_faults(document: Document, error: ValidationError) -> list[ErrorDetails]:
    """The faults without those of the other members of a union.

    A union reports faults of all its members: missing keys, and other types.
    """
    found: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors():
        location = detail["loc"][:-1] if detail["type"] == "missing" else detail["loc"]
        found.setdefault(_written_path(document.tree, location), []).append(detail)
    primary = []
    for path, details in found.items():
        meant = [d for d in details if not d["type"].endswith("_type")] or details[-1:]
        primary += [d for d in meant if d["type"] != "missing" or d["loc"][:-1] == path]
    return primary or error.errors()


def _written_path(tree: Any, location: tuple[int | str, ...]) -> KeyPath:  # noqa: ANN401
    """The keys in pydantic's location, which also contains members of unions."""
    path: list[str | int] = []
    node = tree
    for part in location:
        inside = node.get(part, _ABSENT) if isinstance(node, dict) else _item(node, part)
        if inside is _ABSENT:
            break
        node = inside
        path.append(part)
    return tuple(path)


def _item(node: Any, index: int | str) -> Any:  # noqa: ANN401 - plain YAML values
    if isinstance(node, list) and isinstance(index, int) and index < len(node):
        return node[index]
    return _ABSENT


def _place(document: Document, path: KeyPath) -> str:
    for end in range(len(path), 0, -1):
        if path[:end] in document.places:
            return document.places[path[:end]]
    return "settings"


def _suggestion(model: type[BaseModel], path: KeyPath) -> str:
    known = {dotted(candidate) for candidate in known_keys(model)}
    siblings = [name for name in known if name.rpartition(".")[0] == dotted(path[:-1])]
    wanted = str(path[-1])
    names = {name.rpartition(".")[2]: name for name in siblings}
    near = difflib.get_close_matches(wanted.upper(), names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {names[near[0]]}?"
    elsewhere = sorted(name for name in known if name.rpartition(".")[2] == wanted.upper())
    if elsewhere:
        return f"; did you mean {elsewhere[0]}?"
    return f"; known here: {', '.join(sorted(names))}" if names else ""


def known_keys(model: type[BaseModel], prefix: KeyPath = ()) -> Iterator[KeyPath]:
    """Every key of a schema as a path, sections before their keys."""
    for name, field in model.model_fields.items():
        yield (*prefix, name)
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from known_keys(kind, (*prefix, name))
