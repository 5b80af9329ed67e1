"""Nested mappings as one level of dotted keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

ABSENT = "–"
"""Text in place of a missing value, in every table."""


def flatten(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the leaves of a tree by dotted keys, in their order; empty mappings are left out.

    >>> flatten({"TRAIN": {"OPTIM": {"LR": 0.1}, "EMA": None}, "SEED": 1})
    {'TRAIN.OPTIM.LR': 0.1, 'TRAIN.EMA': None, 'SEED': 1}
    """
    return {".".join(path): value for path, value in leaves(tree) if value != {}}


def flat_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings by sorted dotted keys, values as JSON.

    >>> flat_settings({"TRAIN": {"OPTIM": {"LR": 0.1}, "EMA": None}, "SEED": 1})
    {'SEED': '1', 'TRAIN.EMA': 'null', 'TRAIN.OPTIM.LR': '0.1'}
    """
    leaves = flatten(settings)
    return {key: json.dumps(leaves[key], sort_keys=True) for key in sorted(leaves)}


def differing_values(
    *trees: Mapping[str, Any], text: Callable[[Any], str] = json.dumps, absent: str = ABSENT
) -> dict[str, tuple[str, ...]]:
    """Return the dotted keys in which trees differ, with the values as texts.

    >>> differing_values({"A": {"B": 1, "C": 2}}, {"A": {"B": 1.5, "C": 2}, "D": None})
    {'A.B': ('1', '1.5'), 'D': ('–', 'null')}
    """
    flat = [{key: text(value) for key, value in flatten(tree).items()} for tree in trees]
    differences = {}
    for key in dict.fromkeys(chain.from_iterable(flat)):
        texts = tuple(values.get(key, absent) for values in flat)
        if len(set(texts)) > 1:
            differences[key] = texts
    return differences


def leaves(tree: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield the leaves of a tree by their paths; an empty mapping is a leaf.

    >>> list(leaves({"TRAIN": {"OPTIM": {"LR": 0.1}}, "LOG": {}}))
    [(('TRAIN', 'OPTIM', 'LR'), 0.1), (('LOG',), {})]
    """
    for name, value in tree.items():
        path = (*prefix, str(name))
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        else:
            yield path, value
