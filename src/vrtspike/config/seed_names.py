"""Names of the trainings of a preset with several seeds."""

from __future__ import annotations

import re

MAX_SEEDS = 1000
"""A plan has several jobs for each seed of a preset."""
_OTHER_SEED = re.compile(r"(.+)-seed-([1-9]\d*)")


def seed_names(preset: str, seeds: int) -> list[str]:
    """Return the names of the trainings of a preset with several seeds, in their order.

    >>> seed_names("demo", 3)
    ['demo', 'demo-seed-2', 'demo-seed-3']
    """
    return [preset, *(f"{preset}-seed-{index}" for index in range(2, seeds + 1))]


def split_seed(name: str) -> tuple[str, int]:
    """Return the preset of a training, and the number of its seed, from 1.

    >>> split_seed("demo"), split_seed("demo-seed-3")
    (('demo', 1), ('demo', 3))
    """
    match = _OTHER_SEED.fullmatch(name)
    if match is None:
        return name, 1
    return match[1], int(match[2])
