"""Chinese texts of the reference of keys (``chinese.toml``), and gaps of translated pages."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path

from vrtspike.config.reference import TEXTS, reference_page

TRANSLATIONS = Path(__file__).with_name("chinese.toml")
PAGES = {
    "README.md": "README.zh-CN.md",
    "docs/README.md": "docs/zh/README.md",
    "docs/data-formats.md": "docs/zh/data-formats.md",
    "docs/figures.md": "docs/zh/figures.md",
    "docs/general.md": "docs/zh/general.md",
    "docs/glossary.md": "docs/zh/glossary.md",
    "docs/own-camera.md": "docs/zh/own-camera.md",
    "docs/project.md": "docs/zh/project.md",
    "docs/troubleshooting.md": "docs/zh/troubleshooting.md",
    "docs/tutorial.md": "docs/zh/tutorial.md",
}
"""Translated pages by their English originals; the reference of the keys is generated."""
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_SAME = re.compile(r"``.+?``|`[^`\n]+`|(?<![\w`])\d[\d.,]*\d|(?<![\w`])\d")
"""Parts of a text that are equal in both languages: commands, names and numbers."""


def chinese(text: str) -> str:
    """Return the Chinese translation of an English text; the English text without a translation."""
    return translations().get(text, text)


@cache
def translations() -> dict[str, str]:
    """Return all translated texts: English to Chinese."""
    return dict(tomllib.loads(TRANSLATIONS.read_text(encoding="utf-8"))["texts"])


def missing_page(root: Path) -> str:
    """Return the text of ``docs/zh/missing.md``: untranslated texts, and gaps of translated pages.

    Args:
        root: folder of the project.
    """
    used = _texts_of_reference()
    parts = [TEXTS["missing"]]
    new = [json.dumps(text, ensure_ascii=False) for text in used if text not in translations()]
    if new:
        entries = [f"[{text}, {text}]," for text in new]
        parts.append("\n".join(["```toml", *entries, "```\n"]))
    old = [f"- {text}" for text in translations() if text not in used]
    if old:
        parts.append("\n".join(["Not needed any more:\n", *old, ""]))
    for english, chinese in PAGES.items():
        gaps = page_gaps(_read(root / english), _read(root / chinese))
        if gaps:
            items = [f"- {gap}" for gap in gaps]
            parts.append("\n".join([f"## {chinese}\n", *items, ""]))
    return "\n".join(parts)


def _texts_of_reference() -> list[str]:
    """Return every English text of the reference, each once."""
    texts: dict[str, None] = {}

    def note(text: str) -> str:
        texts[text] = None
        return text

    reference_page(note)
    return list(texts)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def page_gaps(english: str, chinese: str) -> list[str]:
    """Return the commands, names and numbers that a Chinese page lacks, section by section.

    >>> page_gaps("# A\\nUse `x` 3 times.", "# 甲\\n用 `x` 两次。")
    ['A: 3']
    """
    titles = [heading.lstrip("# ") for heading in _HEADING.findall(english)]
    english_sections = _HEADING.split(english)[1:]
    chinese_sections = _HEADING.split(chinese)[1:]
    if len(english_sections) != len(chinese_sections):
        return [f"{len(english_sections)} sections in English, {len(chinese_sections)} in Chinese"]
    gaps = []
    for title, *bodies in zip(titles, english_sections, chinese_sections, strict=True):
        missing = dict.fromkeys(_missing(*bodies))
        if missing:
            gaps.append(f"{title}: {', '.join(missing)}")
    return gaps


def _missing(english: str, chinese: str) -> list[str]:
    present = set(_SAME.findall(chinese))
    return [word for word in _SAME.findall(english) if word not in present]
