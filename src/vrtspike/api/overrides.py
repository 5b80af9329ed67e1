"""Overrides of keys of a preset, as calls take them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vrtspike.system.errors import ConfigError


def override_words(overrides: Mapping[str, Any]) -> list[str]:
    """Return overrides as ``KEY=VALUE``, the form of ``SET`` and of ``--set``.

    Args:
        overrides: JSON values by the dotted names of keys.

    Raises:
        ConfigError: if a value is not a JSON value.

    >>> override_words({"TRAIN.MAX_STEPS": 10, "MODEL.WINDOW_SIZE": [2, 8, 8], "LOG.ON_END": None})
    ['TRAIN.MAX_STEPS=10', 'MODEL.WINDOW_SIZE=[2, 8, 8]', 'LOG.ON_END=null']
    """
    words = []
    for key, value in overrides.items():
        try:
            text = json.dumps(value, ensure_ascii=False)
        except TypeError as error:
            raise ConfigError(
                f"{key}: found {type(value).__name__}, expected a number, text, truth value, None, "
                f"or a list or mapping of these ({error})"
            ) from error
        words.append(f"{key}={text}")
    return words
