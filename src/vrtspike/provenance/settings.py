"""Settings in the form a scheduler compares and prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def flat_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as one line per key: ``{"TRAIN.OPTIM.LR": "0.0002", ...}``, values as JSON.

    A scheduler that compares the lines can name the key that has changed.
    """
    return dict(_flatten(settings, ""))


def _flatten(settings: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in sorted(settings.items()):
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value, sort_keys=True)
