"""Validation of documents by a schema, with one message for all faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from vrtspike.config.documents import Document, KeyPath, dotted
from vrtspike.system.errors import ConfigError
from vrtspike.system.suggestions import nearest

Model = TypeVar("Model", bound=BaseModel)

_LIST = "expected a list, such as [a, b]"
_EXPECTED = {
    "tuple_type": _LIST,
    "list_type": _LIST,
    "model_type": "expected a section with keys; give some, or remove the line",
}
"""Words in the place of pydantic's, which are Python's names of types."""


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
        faults = [_describe(model, document, detail) for detail in error.errors()]
        raise ConfigError("\n".join([*dict.fromkeys(faults), advice])) from None


def _describe(model: type[BaseModel], document: Document, detail: ErrorDetails) -> str:
    kind, location = detail["type"], detail["loc"]
    # Locations of pydantic also contain members of unions, which no document has.
    written = (location[:end] for end in range(len(location), 0, -1))
    path = next((each for each in written if each in document.places), ())
    place, name = document.places.get(path, "settings"), dotted(path) or "the configuration"
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        return f"{place}: unknown key {dotted(location)}{_suggestion(model, location)}"
    if kind == "missing":
        return f"{place}: {dotted((*path, location[-1]))} is missing"
    if kind == "value_error":
        # What concerns several keys begins with the name of one.
        named: KeyPath = tuple(message.split()[0].rstrip(":").split("."))
        if named in document.places:
            return f"{document.places[named]}: {message}"
        return f"{place}: {name}: {message}"
    message = _EXPECTED.get(kind, message[0].lower() + message[1:])
    return f"{place}: {name}: found {detail['input']!r}; {message}"


def _suggestion(model: type[BaseModel], path: KeyPath) -> str:
    """The nearest name in the same section, else in any."""
    every = [path_of_key for path_of_key, _ in fields_of(model)]
    in_section = [each for each in every if each[:-1] == path[:-1]]
    for keys in (in_section, every):
        by_name = {str(each[-1]): dotted(each) for each in keys}
        near = nearest(str(path[-1]), by_name)
        if near is not None:
            return f"; did you mean {by_name[near]}?"
    return ""


def fields_of(model: type[BaseModel], prefix: KeyPath = ()) -> Iterator[tuple[KeyPath, FieldInfo]]:
    """Every key of a schema with its definition, sections before their keys."""
    for name, field in model.model_fields.items():
        yield (*prefix, name), field
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from fields_of(kind, (*prefix, name))
