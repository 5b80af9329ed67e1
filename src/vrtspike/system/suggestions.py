"""Suggestions for mistyped names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest_name(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name nearest to a mistyped one; None if none is near.

    Args:
        name: name as it was typed; case is ignored.
        names: names to choose from.
        cutoff: lowest similarity, from 0 to 1 (``difflib.SequenceMatcher.ratio``); 0 accepts any
            name.

    >>> nearest_name("RESTOR", ["restore", "export"])
    'restore'
    """
    by_lower_case = {candidate.lower(): candidate for candidate in names}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=cutoff)
    if not matches:
        return None
    return by_lower_case[matches[0]]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of an error message: the nearest name; empty without one.

    >>> did_you_mean("restor", ["restore", "export"])
    '; did you mean restore?'
    >>> did_you_mean("tarin", ["doctor"])
    ''
    """
    near = nearest_name(name, names)
    if near is None:
        return ""
    return f"; did you mean {near}?"
