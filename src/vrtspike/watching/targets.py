"""Targets of a workflow: listed before the rules behind them, and the nearest to a name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

_NO_RULE = re.compile(r"No rule to produce (.+?) \(if you use input functions")
_NEAR, _FAR = 0.8, 0.6
_SHOWN = 3


def listing(rules: Iterable[tuple[str, str | None, bool]], first: Sequence[str]) -> list[str]:
    """Rules and what they do, targets first.

    Args:
        rules: name, explanation, and whether the rule has wildcards, in any order.
        first: names of targets, in the order in which they come before all others.

    Returns:
        a line per rule: those named by ``first``, other rules without wildcards, and at last those
        with wildcards, which are asked for by the files that they make.
    """
    places = {name: number for number, name in enumerate(first)}
    ordered = sorted(rules, key=lambda rule: (rule[2], places.get(rule[0], len(places)), rule[0]))
    return [f"{name} ({text})" if text else name for name, text, _ in ordered]


def unknown_target(message: str, names: Iterable[str]) -> str | None:
    """A better answer where Snakemake knows no rule for a target.

    Args:
        message: Snakemake's.
        names: targets that there are.

    Returns:
        the answer with the nearest targets; None if the message is about something else.
    """
    found = _NO_RULE.search(message)
    if found is None:
        return None
    asked = found[1]
    known = sorted(set(names))
    near = difflib.get_close_matches(asked, known, _SHOWN, _NEAR)
    near = near or difflib.get_close_matches(asked, known, 1, _FAR)
    hint = f"; did you mean {' or '.join(near)}?" if near else ";"
    return f"no target and no file of this workflow: {asked}{hint} snakemake --list shows them all"
