"""The reference of every key, generated from the schema, as a page and as a JSON schema.

English texts are in ``reference.toml`` and in the schema, translations in
:mod:`vrtspike.config.translations`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vrtspike.config.checking import fields_of
from vrtspike.config.fields import is_operational
from vrtspike.config.loading import all_deprecated_keys
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.config.tasks import TASKS, find_task
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.config.yaml_documents import dotted_key

Translate = Callable[[str], str]
"""Function from an English text to that of a page."""
TEXTS: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("reference.toml").read_text(encoding="utf-8")
)
"""English texts of the page by name."""


def reference_page(translate: Translate = str) -> str:
    """Return the text of ``config/README.md``, or of ``docs/zh/configuration.md``.

    Args:
        translate: function called with each English text of the page, such as
            :func:`vrtspike.config.translations.chinese`.
    """
    default = find_task(DEFAULT_TASK).SETTINGS
    parts = [
        translate(TEXTS["introduction"]),
        f"## {translate(TEXTS['workflow'])}\n",
        _table(workflow_schema(), translate),
        f"## {translate(TEXTS['presets'])}\n",
        _table(default, translate),
        translate(TEXTS["other names"]).rstrip(),
    ]
    for path, old in all_deprecated_keys().items():
        if old.key:
            parts.append(f"| `{dotted_key(path)}` | `{dotted_key(old.key)}` |")
    parts.append(f"\n{translate(TEXTS['old values'])}\n")
    common = {name for name, _ in _leaves(RunSettings)}
    for name in TASKS:
        if name != DEFAULT_TASK:
            title = translate(TEXTS["presets of a task"]).format(name=name)
            table = _table(find_task(name).SETTINGS, translate, common)
            parts += [f"## {title}\n", translate(TEXTS["besides"]), table]
    return "\n".join(parts)


def preset_json_schema() -> str:
    """Return the JSON schema of a preset, for completion and checks in editors."""
    kinds: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for name in TASKS:
        schema = find_task(name).SETTINGS.model_json_schema()
        schema["properties"]["BASE"]["type"] = "string"
        schema["properties"]["TASK"]["enum"] = [name]
        definitions |= schema.pop("$defs")
        kinds.append(schema)
    # A preset may inherit its TASK from its BASE.
    schema = {"anyOf": kinds, "$defs": definitions, "title": "Preset"}
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def _table(model: type[BaseModel], translate: Translate, excluded: Collection[str] = ()) -> str:
    """Return a table of the keys of a schema."""
    rows: dict[tuple[str, ...], list[tuple[str, FieldInfo]]] = {}
    for name, field in _leaves(model):
        if name not in excluded:
            rows.setdefault(_identity(name, field), []).append((name, field))
    lines = [translate(TEXTS["titles"]), "|---|---|---|"]
    lines += [_row(keys, translate) for keys in rows.values()]
    return "\n".join(lines) + "\n"


def _identity(name: str, field: FieldInfo) -> tuple[str, ...]:
    """Return texts that are equal for keys of one row: equal keys of neighbouring sections."""
    section, _, key = name.rpartition(".")
    if not section:
        return (name,)
    parent = section.rpartition(".")[0]
    return (repr(parent), repr(key), repr(field.default), repr(field.description))


def _leaves(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the keys that are not sections, and sections that may be absent."""
    for path, field in fields_of(model):
        if not isinstance(field.default, BaseModel):
            yield dotted_key(path), field


def _row(keys: Sequence[tuple[str, FieldInfo]], translate: Translate) -> str:
    """Return a line of the table for keys of the same default and meaning."""
    field = keys[0][1]
    meaning = translate(field.description or "").replace("|", "\\|")
    values = _names(field.annotation)
    if values:
        meaning += " (" + ", ".join(f"`{value}`" for value in values) + ")"
    mark = "\\*" if is_operational(field) else ""
    names = ", ".join(f"`{name}`{mark}" for name, _ in keys)
    default = translate("required") if field.is_required() else f"`{json.dumps(field.default)}`"
    return f"| {names} | {default} | {meaning} |"


def _names(annotation: Any) -> list[str]:  # noqa: ANN401 - any type
    """Return the names that a key takes, alone or in a list; empty for a key of another type."""
    if get_origin(annotation) is tuple:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is not Literal:
        return []
    return list(get_args(annotation))
