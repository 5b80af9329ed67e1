"""The configuration as options of the programs behind the rules."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from vrtspike.config.run_schema import RunSettings
from vrtspike.flatten import flat_settings


def one_of(names: Iterable[str]) -> str:
    """A wildcard constraint: one of these names.

    >>> one_of(["demo", "low.ram"])
    'demo|low\\\\.ram'
    """
    return "|".join(re.escape(name) for name in names)


def evaluation_overrides(settings: RunSettings) -> str:
    """Today's TEST settings for weights that were trained under other ones; empty without any."""
    lines = flat_settings({"TEST": settings.TEST.model_dump(mode="json")})
    return (
        shlex.join(["--set", *(f"{key}={value}" for key, value in lines.items())]) if lines else ""
    )
