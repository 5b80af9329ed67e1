"""The reference of all keys in Chinese: translations of what the schema says in English.

``chinese.toml`` beside this file holds, for each text, the digest of the English that was
translated and the Chinese. Where the English is another by now, or nothing was translated, the page
shows the English, and :func:`untranslated` names what is missing.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from functools import cache
from pathlib import Path

from vrtspike.config.reference import reference_page
from vrtspike.errors import ConfigError

TRANSLATIONS = Path(__file__).with_suffix(".toml")


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


def chinese_page() -> str:
    """The text of ``docs/zh/configuration.md``."""
    return reference_page(chinese)


def untranslated() -> list[str]:
    """A line for each text that has no Chinese, as it would stand in ``chinese.toml``.

    The English stands where the Chinese belongs.
    """
    known = _translations()
    return [
        f"{json.dumps(name)} = {json.dumps([digest(text), text], ensure_ascii=False)}"
        for name, text in _english().items()
        if known.get(name, ("", ""))[0] != digest(text)
    ]


def needless() -> list[str]:
    """The names in ``chinese.toml`` that no text has."""
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
        ConfigError: if the file is no TOML or an entry is another than two texts.
    """
    try:
        entries = tomllib.loads(TRANSLATIONS.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{TRANSLATIONS}: {error}; a text stands in quotation marks") from error
    for name, entry in entries.items():
        if not (
            isinstance(entry, list) and len(entry) == 2 and all(isinstance(e, str) for e in entry)
        ):
            raise ConfigError(
                f"{TRANSLATIONS}: {name} is {entry!r}, expected the digest of the English and the "
                "Chinese"
            )
    return {name: (entry[0], entry[1]) for name, entry in entries.items()}
