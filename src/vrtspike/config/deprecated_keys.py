"""Older and alternative names of keys, replaced by those of the schema."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vrtspike.config.yaml_documents import Document, KeyPath, dotted_key
from vrtspike.system.errors import ConfigError


@dataclass(frozen=True)
class DeprecatedKey:
    """Meaning of a key that the schema does not have.

    Attributes:
        key: current key of the schema; None if the old key has no effect.
        values: current values by old ones; None if values are unchanged.
        reason: reason why it has no effect.
    """

    key: KeyPath | None = None
    values: Mapping[Any, Any] | None = None
    reason: str = ""


DeprecatedKeys = Mapping[KeyPath, DeprecatedKey]

_AMP_ENABLED = ("TRAIN", "AMP_ENABLED")
_AMP_LEVEL = ("TRAIN", "AMP_OPT_LEVEL")
_PRECISION = ("TRAIN", "PRECISION")
_PRECISIONS = {True: "mixed", "on": "mixed", False: "32", "off": "32"}

COMMON: DeprecatedKeys = {
    ("TOTAL_WORKERS",): DeprecatedKey(("DATALOADER", "TOTAL_WORKERS")),
    ("TRAIN", "NUM_WORKERS"): DeprecatedKey(("DATALOADER", "TRAIN_WORKERS")),
    _AMP_ENABLED: DeprecatedKey(_PRECISION, _PRECISIONS),
    _AMP_LEVEL: DeprecatedKey(_PRECISION, {"O0": "32", "O1": "mixed", "O2": "bf16-true"}),
    ("LOG", "SAVE_DIR"): DeprecatedKey(reason="runs are written to RUNS of config/config.yaml"),
    ("TRAIN", "SCHED", "TYPE"): DeprecatedKey(
        values={"cosine": "cosine"}, reason="the learning rate follows a cosine"
    ),
}
"""Old keys of every preset; a task adds its own (``deprecated_keys`` of its settings)."""


def _overridden_precision(values: Mapping[KeyPath, Any]) -> KeyPath | None:
    """Return the one of the two old keys of precision that the other overrides; None without both.

    The level counts alone, but not if mixed precision is off.
    """
    enabled = values.get(_AMP_ENABLED)
    if _AMP_LEVEL not in values or enabled not in list(_PRECISIONS):
        return None
    return _AMP_LEVEL if _PRECISIONS[enabled] == "32" else _AMP_ENABLED


def replace_deprecated_keys(document: Document, deprecated_keys: DeprecatedKeys) -> Document:
    """Return the document with the schema's names of keys, and warn of each key without effect.

    Args:
        document: document of one file, or of one source of overrides.
        deprecated_keys: old keys of the preset's task.

    Raises:
        ConfigError: if a key is given under two names with different values, or an old key has a
            value that is no longer possible.
    """
    values = dict(document.values)
    locations = dict(document.locations)
    overridden = _overridden_precision(values)
    if overridden is not None:
        del values[overridden]
    for path, old in deprecated_keys.items():
        if path not in values:
            continue
        value = values.pop(path)
        name = f"{locations.get(path, 'settings')}: {dotted_key(path)}"
        _require_possible(old, value, name)
        if old.key is None:
            message = f"{name} has no effect: {old.reason}; remove the key"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            continue
        # Runs of older versions have null for unset keys. The schema rejects values of sections.
        if value is None or _has_value_of_section(values, old.key):
            continue
        present = value if old.values is None else old.values[value]
        if values.setdefault(old.key, present) != present:
            raise ConfigError(
                f"{name} is {value!r} and {dotted_key(old.key)} is {values[old.key]!r}; they are "
                "the same key: keep one"
            )
        locations.setdefault(old.key, locations.get(path, "settings"))
    return Document(values, locations)


def _require_possible(old: DeprecatedKey, value: Any, name: str) -> None:  # noqa: ANN401 - raw YAML
    """Reject a value that is no longer possible.

    Args:
        old: the key's meaning.
        value: value of the key.
        name: place and name of the key, for the message.
    """
    if old.values is None or value in list(old.values):
        return
    allowed = ", ".join(map(str, old.values))
    reason = f": {old.reason}; remove the key" if old.reason else ""
    raise ConfigError(f"{name} is {value!r}, expected one of {allowed}{reason}")


def _has_value_of_section(values: Mapping[KeyPath, Any], path: KeyPath) -> bool:
    """Return whether a section of the key has a value of its own, such as ``TRAIN: 1``."""
    sections = (path[:end] for end in range(1, len(path)))
    return any(values.get(section, {}) != {} for section in sections)
