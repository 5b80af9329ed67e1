"""Validation of documents by a schema, with one message for all faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from vrtspike.config.yaml_documents import Document, KeyPath, dotted_key
from vrtspike.system.errors import ConfigError, nearest_name

Model = TypeVar("Model", bound=BaseModel)

_LIST = "expected a list, such as [a, b]"
_EXPECTED = {
    "tuple_type": _LIST,
    "list_type": _LIST,
    "model_type": "expected a section with keys; give some, or remove the line",
}
"""Texts in place of pydantic's, which name Python's types."""


def validate_document(model: type[Model], document: Document, advice: str) -> Model:
    """Build ``model`` from a document.

    Args:
        model: class to build, a pydantic model.
        document: values, with file and line of each key.
        advice: last line of the message, such as where the keys are documented.

    Raises:
        ConfigError: with a line for each fault: file, line, key, what was found, what is allowed,
            and for an unknown key the nearest known one.
    """
    try:
        return model.model_validate(document.tree)
    except ValidationError as error:
        faults = [_describe(model, document, detail) for detail in error.errors()]
        raise ConfigError("\n".join([*dict.fromkeys(faults), advice])) from None


def _describe(model: type[BaseModel], document: Document, detail: ErrorDetails) -> str:
    """Return a line on a fault: place, key, what was found and what is allowed."""
    kind = detail["type"]
    location = detail["loc"]
    path = _written_path(document, location)
    file_line = document.locations.get(path, "settings")
    name = dotted_key(path) or "the configuration"
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        return f"{file_line}: unknown key {dotted_key(location)}{_suggestion(model, location)}"
    if kind == "missing":
        return f"{file_line}: {dotted_key((*path, location[-1]))} is missing"
    if kind == "value_error":
        # A message on several keys begins with the name of one.
        named: KeyPath = tuple(message.split()[0].rstrip(":").split("."))
        if named in document.locations:
            return f"{document.locations[named]}: {message}"
        return f"{file_line}: {name}: {message}"
    message = _EXPECTED.get(kind, message[0].lower() + message[1:])
    return f"{file_line}: {name}: found {detail['input']!r}; {message}"


def _written_path(document: Document, location: KeyPath) -> KeyPath:
    """Return the longest prefix of a location that the document contains.

    Pydantic's locations also include union members, which do not occur in documents.
    """
    for end in range(len(location), 0, -1):
        if location[:end] in document.locations:
            return location[:end]
    return ()


def _suggestion(model: type[BaseModel], path: KeyPath) -> str:
    """Return a hint at the nearest name in the same section, else in any."""
    all_keys = [key for key, _ in fields_of(model)]
    in_section = [key for key in all_keys if key[:-1] == path[:-1]]
    for keys in (in_section, all_keys):
        by_name = {str(key[-1]): dotted_key(key) for key in keys}
        near = nearest_name(str(path[-1]), by_name)
        if near is not None:
            return f"; did you mean {by_name[near]}?"
    return ""


def fields_of(model: type[BaseModel], prefix: KeyPath = ()) -> Iterator[tuple[KeyPath, FieldInfo]]:
    """Yield every key of a schema with its definition, sections before their keys."""
    for name, field in model.model_fields.items():
        yield (*prefix, name), field
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from fields_of(kind, (*prefix, name))
