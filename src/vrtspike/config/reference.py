"""The reference of every key, generated from the schema, for people and for editors.

Its English texts are in ``reference.toml`` and in the schema, each with its Chinese in
``chinese.toml``.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vrtspike.config.checking import fields_of
from vrtspike.config.documents import dotted
from vrtspike.config.fields import is_operational
from vrtspike.config.loading import all_old_keys
from vrtspike.config.problems import PROBLEMS, find_problem
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.config.workflow import workflow_schema

Translate = Callable[[str], str]
"""From an English text to that of a page."""


def reference_page(translate: Translate = str) -> str:
    """The text of ``config/README.md``, or with :func:`chinese` of ``docs/zh/configuration.md``.

    Args:
        translate: called with each English text of the page.
    """
    old_keys = all_old_keys()
    common = {name for name, _ in _leaves(RunSettings)}

    def own(name: str) -> str:
        return translate(_TEXTS[name])

    parts = [own("introduction"), f"## {own('workflow')}\n", _table(workflow_schema(), translate)]
    parts += [f"## {own('presets')}\n", _table(find_problem(DEFAULT_TASK).SETTINGS, translate)]
    for task in PROBLEMS:
        if task != DEFAULT_TASK:
            title = own("presets of a task").format(task=task)
            table = _table(find_problem(task).SETTINGS, translate, common)
            parts += [f"## {title}\n", own("besides"), table]
    parts.append(own("other names").rstrip())
    parts += [f"| `{dotted(a)}` | `{dotted(old.key)}` |" for a, old in old_keys.items() if old.key]
    parts.append(f"\n{own('old values')}")
    return "\n".join([*parts, ""])


def preset_json_schema() -> str:
    """The JSON schema of a preset, for completion and checks in editors."""
    kinds: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for task in PROBLEMS:
        schema = find_problem(task).SETTINGS.model_json_schema()
        schema["properties"]["BASE"]["type"] = "string"
        schema["properties"]["TASK"]["enum"] = [task]
        definitions |= schema.pop("$defs")
        kinds.append(schema)
    # A preset may inherit its TASK from its BASE.
    schema = {"anyOf": kinds, "$defs": definitions, "title": "Preset"}
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def _table(model: type[BaseModel], translate: Translate, excluded: Collection[str] = ()) -> str:
    rows: dict[tuple[object, ...], list[tuple[str, FieldInfo]]] = {}
    for name, field in _leaves(model):
        if name not in excluded:
            # Equal keys of two sections share a row.
            part, _, own = name.rpartition(".")
            same = (part.rpartition(".")[0], own, field.default, field.description)
            rows.setdefault(tuple(map(repr, same)) if part else (name,), []).append((name, field))
    lines = [translate(_TEXTS["titles"]), "|---|---|---|"]
    return "\n".join([*lines, *(_row(keys, translate) for keys in rows.values())]) + "\n"


def _leaves(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """The keys that are no sections, or sections that may be absent."""
    for path, field in fields_of(model):
        if not isinstance(field.default, BaseModel):
            yield dotted(path), field


def _row(keys: Sequence[tuple[str, FieldInfo]], translate: Translate) -> str:
    """A line of the table for keys of the same default and meaning."""
    field = keys[0][1]
    meaning = translate(field.description or "").replace("|", "\\|")
    values = _names(field.annotation)
    if values:
        meaning += " (" + ", ".join(f"`{value}`" for value in values) + ")"
    names = ", ".join(f"`{each}`" + ("\\*" if is_operational(of) else "") for each, of in keys)
    default = translate("required") if field.is_required() else f"`{json.dumps(field.default)}`"
    return f"| {names} | {default} | {meaning} |"


def _names(annotation: Any) -> list[str]:  # noqa: ANN401 - any type
    """The names that a key takes, alone or in a list; empty for a key of another type."""
    if get_origin(annotation) is tuple:
        annotation = get_args(annotation)[0]
    return list(get_args(annotation)) if get_origin(annotation) is Literal else []


TRANSLATIONS = Path(__file__).with_name("chinese.toml")
PAGES = {
    "README.md": "README.zh-CN.md",
    "docs/data-formats.md": "docs/zh/data-formats.md",
    "docs/general.md": "docs/zh/general.md",
    "docs/glossary.md": "docs/zh/glossary.md",
    "docs/own-camera.md": "docs/zh/own-camera.md",
    "docs/troubleshooting.md": "docs/zh/troubleshooting.md",
    "docs/tutorial.md": "docs/zh/tutorial.md",
}
"""Translated pages by their English originals; the reference of the keys is generated."""
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_SAME = re.compile(r"``.+?``|`[^`\n]+`|(?<![\w`])\d[\d.,]*\d|(?<![\w`])\d")
"""Parts of a text that are equal in both languages: commands, names and figures."""
_TEXTS: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("reference.toml").read_text(encoding="utf-8")
)


def chinese(text: str) -> str:
    """The Chinese for an English text; the English where there is none."""
    return translations().get(text, text)


@cache
def translations() -> dict[str, str]:
    """Every translated text: English to Chinese."""
    return dict(tomllib.loads(TRANSLATIONS.read_text(encoding="utf-8"))["texts"])


def missing_page(root: Path) -> str:
    """The text of ``docs/zh/missing.md``: untranslated texts, and gaps of translated pages.

    Args:
        root: folder of the project.
    """
    used: dict[str, None] = {}
    reference_page(lambda text: used.setdefault(text) or text)
    parts = [_TEXTS["missing"]]
    if new := [json.dumps(text, ensure_ascii=False) for text in used if text not in translations()]:
        parts.append("\n".join(["```toml", *(f"[{text}, {text}]," for text in new), "```\n"]))
    if old := [f"- {text}" for text in translations() if text not in used]:
        parts.append("\n".join(["Not needed any more:\n", *old, ""]))
    for english, chinese in PAGES.items():
        texts = [(root / page).read_text(encoding="utf-8") for page in (english, chinese)]
        if gaps := page_gaps(*texts):
            parts.append("\n".join([f"## {chinese}\n", *(f"- {gap}" for gap in gaps), ""]))
    return "\n".join(parts)


def page_gaps(english: str, chinese: str) -> list[str]:
    """Commands, names and figures that a Chinese page lacks, section by section.

    >>> page_gaps("# A\\nUse `x` 3 times.", "# 甲\\n用 `x` 两次。")
    ['A: 3']
    """
    titles = [heading.lstrip("# ") for heading in _HEADING.findall(english)]
    sections = [_HEADING.split(text)[1:] for text in (english, chinese)]
    if len(sections[0]) != len(sections[1]):
        return [f"{len(sections[0])} sections in English, {len(sections[1])} in Chinese"]
    return [
        f"{title}: {', '.join(gaps)}"
        for title, *bodies in zip(titles, *sections, strict=True)
        if (gaps := list(dict.fromkeys(_missing(*bodies))))
    ]


def _missing(english: str, chinese: str) -> list[str]:
    known = set(_SAME.findall(chinese))
    return [word for word in _SAME.findall(english) if word not in known]
