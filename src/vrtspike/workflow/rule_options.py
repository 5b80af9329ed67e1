"""Texts in rules: constraints of wildcards, and options of programs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from vrtspike.config.run_schema import RunSettings
from vrtspike.io.flatten import flat_settings


def one_of(names: Iterable[str]) -> str:
    """Return a wildcard constraint that matches these names, and nothing if there are none.

    >>> one_of(["demo", "low.ram"]), one_of([])
    ('demo|low\\\\.ram', '(?!)')
    """
    return "|".join(re.escape(name) for name in names) or "(?!)"


def evaluation_overrides(settings: RunSettings) -> str:
    """Return options with the present TEST settings; the values of the training may differ."""
    lines = flat_settings({"TEST": settings.TEST.model_dump(mode="json")})
    pairs = [f"{key}={value}" for key, value in lines.items()]
    if not pairs:
        return ""
    return shlex.join(["--set", *pairs])
