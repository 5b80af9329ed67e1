"""The numbers in the names of frames: their order, and their gaps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise


def frame_order(name: str) -> list[tuple[int, str]]:
    """Key that sorts names by the numbers in them.

    >>> sorted(["frame_10", "frame_2", "frame_1"], key=frame_order)
    ['frame_1', 'frame_2', 'frame_10']
    """
    # The name is the last key, so that 1 and 01 have an order, too.
    parts = [*re.split(r"(\d+)", name), f"/{name}"]
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


Numbers = Sequence[int | None]
"""Numbers in the names of frames; None for a name of another kind than most."""


def frame_numbers(names: Sequence[str]) -> Numbers | None:
    """Read the numbers of frames named by a number, alone or after one common prefix.

    Args:
        names: without suffixes, such as ``000226`` or ``frame_226``.

    Returns:
        a number for each name, or None for a name of another kind; None instead of all numbers if
        there are many such names, or if prefixes hold numbers, too, as in times.

    >>> frame_numbers(["frame_8", "frame_16", "cover"])
    [8, 16, None]
    >>> frame_numbers(["left_1", "right_1"]) is None
    True
    """
    matches = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    prefixes = Counter(match[1] for match in matches if match)
    prefix = ""
    count = 0
    if prefixes:
        prefix, count = prefixes.most_common(1)[0]
    kinds = Counter(re.sub(r"\d+", "0", other) for other in prefixes)
    max_others = min(count - 1, max(2, len(names) // 10))
    has_numbered_prefixes = kinds[re.sub(r"\d+", "0", prefix)] > 1
    if len(names) - count > max_others or has_numbered_prefixes:
        return None
    return [int(match[2]) if match and match[1] == prefix else None for match in matches]


def find_gaps(
    names: Sequence[str], numbers: Numbers | None, step: int | None = None
) -> tuple[int, list[tuple[str, str]]]:
    """Find neighbours whose numbers do not differ by ``step``, or of which one has no number.

    Args:
        names: names of frames, in the order of their numbers.
        numbers: these numbers, such as those of :func:`frame_numbers`.
        step: expected difference; None is the most frequent one (of equally frequent ones the
            smallest, which leaves out no frame).

    Returns:
        the step, and the names before and after each jump; none if names are not numbered.

    >>> find_gaps(["01", "02", "04", "05"], [1, 2, 4, 5])
    (1, [('02', '04')])
    """
    steps = [_difference(a, b) for a, b in pairwise(numbers or ())]
    if step is None:
        # Twice the same number is a jump even if it is frequent.
        counts = Counter(difference for difference in steps if difference)
        step = min(counts, key=lambda number: (-counts[number], number), default=1)
    jumps = []
    for index, difference in enumerate(steps):
        if difference != step:
            jumps.append((names[index], names[index + 1]))
    return step, jumps


def _difference(number: int | None, next_number: int | None) -> int | None:
    if number is None or next_number is None:
        return None
    return next_number - number
