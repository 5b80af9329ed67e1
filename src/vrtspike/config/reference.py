"""The reference of every key, generated from the schema, for people and for editors.

Its English texts are in ``reference.toml`` and in the schema, the Chinese ones in ``chinese.toml``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from vrtspike.config.aliases import Aliases, dotted
from vrtspike.config.fields import is_operational
from vrtspike.config.problems import PROBLEMS, find_problem
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.config.workflow import workflow_schema
from vrtspike.errors import ConfigError

Translate = Callable[[str, str], str]
"""From a text's name and its English to the text of a page."""


def english(name: str, text: str) -> str:
    """The English text itself."""
    return text


def reference_page(translate: Translate = english) -> str:
    """The text of ``config/README.md``, or translated that of ``docs/zh/configuration.md``.

    Args:
        translate: called with the name and the English of each text. A key's description has the
            key's name, other texts have lower-case names.
    """
    aliases = _every_alias()

    def own(name: str) -> str:
        return translate(name, _TEXTS[name])

    parts = [own("introduction"), f"## {own('workflow')}\n", _table(workflow_schema(), translate)]
    parts += [f"## {own('presets')}\n", _table(find_problem(DEFAULT_TASK).SETTINGS, translate)]
    for task in PROBLEMS:
        if task != DEFAULT_TASK:
            title = own("presets of a task").format(task=task)
            parts += [f"## {title}\n", own("besides"), _table_of_problem(task, translate)]
    parts.append(own("other names").rstrip())
    parts += [f"| `{dotted(a)}` | `{dotted(b)}` |" for a, b in aliases.renamed.items()]
    parts.append(f"\n{own('old values')}")
    return "\n".join([*parts, ""])


def _every_alias() -> Aliases:
    """The other spellings of all problems."""
    return functools.reduce(operator.or_, (find_problem(t).SETTINGS.aliases for t in PROBLEMS))


def preset_json_schema() -> str:
    """The JSON schema of a preset, for completion and checks in editors."""
    kinds: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for task in PROBLEMS:
        schema = find_problem(task).SETTINGS.model_json_schema()
        schema["properties"]["BASE"] = {
            "type": "string",
            "description": "Preset this one starts from",
        }
        schema["properties"]["TASK"]["enum"] = [task]
        definitions |= schema.pop("$defs")
        kinds.append(schema)
    # A preset may inherit its TASK from its BASE.
    schema = {"anyOf": kinds, "$defs": definitions, "title": "Preset"}
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def _table_of_problem(task: str, translate: Translate) -> str:
    """The keys that the presets of a problem have beside those of every preset."""
    common = {name for name, _ in _leaves(RunSettings, "")}

    def own(name: str, text: str) -> str:
        return translate(name if name in ("titles", "required") else f"{task} {name}", text)

    return _table(find_problem(task).SETTINGS, own, common)


def _table(model: type[BaseModel], translate: Translate, excluded: Collection[str] = ()) -> str:
    rows: dict[tuple[object, ...], list[tuple[str, FieldInfo]]] = {}
    for name, field in _leaves(model, ""):
        if name not in excluded:
            # Equal keys of two sections share a row.
            part, _, own = name.rpartition(".")
            same = (part.rpartition(".")[0], own, field.default, field.description)
            rows.setdefault(tuple(map(repr, same)) if part else (name,), []).append((name, field))
    lines = [translate("titles", _TEXTS["titles"]), "|---|---|---|"]
    return "\n".join([*lines, *(_row(keys, translate) for keys in rows.values())]) + "\n"


def _leaves(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        inner = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)]
        nested = inner and isinstance(field.default, BaseModel)
        if nested:
            yield from _leaves(inner[0], f"{prefix}{name}.")
            continue
        yield f"{prefix}{name}", field
        if inner:
            yield from _leaves(inner[0], f"{prefix}{name}.")


def _row(keys: Sequence[tuple[str, FieldInfo]], translate: Translate) -> str:
    """A line of the table for keys of the same default and meaning."""
    name, field = keys[0]
    meaning = translate(name, field.description or "").replace("|", "\\|")
    values = _names(field.annotation)
    if values:
        meaning += " (" + ", ".join(f"`{value}`" for value in values) + ")"
    names = ", ".join(f"`{each}`" + ("\\*" if is_operational(of) else "") for each, of in keys)
    return f"| {names} | {_default(field, translate)} | {meaning} |"


def _names(annotation: Any) -> list[str]:  # noqa: ANN401 - any type
    """The names that a key takes, alone or in a list; empty for a key of another type."""
    if get_origin(annotation) is tuple:
        annotation = get_args(annotation)[0]
    return list(get_args(annotation)) if get_origin(annotation) is Literal else []


def _default(field: FieldInfo, translate: Translate) -> str:
    value: Any = field.default
    if value is PydanticUndefined:
        return translate("required", "required")
    return f"`{json.dumps(value)}`"


TRANSLATIONS = Path(__file__).with_name("chinese.toml")
PAGES = {
    "README.md": "README.zh-CN.md",
    "docs/data-formats.md": "docs/zh/data-formats.md",
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


def digest(text: str) -> str:
    """The digest of an English text that stands beside its translation.

    >>> digest("Bins of the voxel grid")
    '3a1f473c'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def chinese(name: str, text: str) -> str:
    """The Chinese for an English text; the English where there is none."""
    known = _translations().get(name)
    return known[1] if known is not None and known[0] == digest(text) else text


def untranslated() -> list[str]:
    """A line for ``chinese.toml`` for each text without a translation, with the English text."""
    known = _translations()
    return [
        f"{json.dumps(name)} = {json.dumps([digest(text), text], ensure_ascii=False)}"
        for name, text in _english().items()
        if known.get(name, ("", ""))[0] != digest(text)
    ]


def missing_page(root: Path) -> str:
    """The text of ``docs/zh/missing.md``: untranslated texts, and gaps of translated pages.

    Args:
        root: folder of the project.
    """
    parts = [_TEXTS["missing"]]
    if lines := untranslated():
        parts.append("\n".join(["```toml", *lines, "```\n"]))
    if names := unused_translations():
        parts.append(f"Not needed any more: {', '.join(names)}\n")
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


def unused_translations() -> list[str]:
    """Names in ``chinese.toml`` that no text of the page has."""
    return sorted(_translations().keys() - _english().keys())


def _english() -> dict[str, str]:
    """Every text of the page by its name."""
    texts: dict[str, str] = {}

    def note(name: str, text: str) -> str:
        return texts.setdefault(name, text)

    reference_page(note)
    return texts


@cache
def _translations() -> dict[str, tuple[str, str]]:
    """Digest and Chinese by name.

    Raises:
        ConfigError: if the file is not TOML, or an entry is not a list of two texts.
    """
    try:
        entries = tomllib.loads(TRANSLATIONS.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{TRANSLATIONS}: {error}; put texts in quotation marks") from error
    for name, entry in entries.items():
        if not (
            isinstance(entry, list) and len(entry) == 2 and all(isinstance(e, str) for e in entry)
        ):
            raise ConfigError(
                f"{TRANSLATIONS}: {name} is {entry!r}, expected the digest of the English and the "
                "Chinese"
            )
    return {name: (entry[0], entry[1]) for name, entry in entries.items()}
