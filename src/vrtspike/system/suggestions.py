"""Suggestions for mistyped names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that is most like a mistyped one; None where none is near.

    Args:
        name: as it was typed; case does not matter.
        names: those that exist.
        cutoff: lowest similarity, from 0 to 1 (``difflib.SequenceMatcher.ratio``); 0 finds a name
            however unlike.

    >>> nearest("RESTOR", ["restore", "export"])
    'restore'
    """
    by_lower_case = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=cutoff)
    return by_lower_case[near[0]] if near else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of an error message: the nearest name, or nothing.

    >>> did_you_mean("restor", ["restore", "export"])
    '; did you mean restore?'
    >>> did_you_mean("tarin", ["doctor"])
    ''
    """
    near = nearest(name, names)
    return "" if near is None else f"; did you mean {near}?"
