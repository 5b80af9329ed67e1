"""The numbers in the names of frames: their order, and where they jump."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise


def frame_order(name: str) -> list[tuple[int, str]]:
    """Key that sorts names by the numbers in them.

    >>> sorted(["frame_10", "frame_2", "frame_1"], key=frame_order)
    ['frame_1', 'frame_2', 'frame_10']
    """
    # The name itself comes last, so that 1 and 01 have an order, too.
    parts = [*re.split(r"(\d+)", name), f"/{name}"]
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


Numbers = Sequence[int | None]
"""Those in the names of frames; None for a name that is of another kind than most."""


def frame_numbers(names: Sequence[str]) -> Numbers | None:
    """The numbers of frames that are named by them, alone or after one common prefix.

    Args:
        names: without suffixes, such as ``000226`` or ``frame_226``.

    Returns:
        a number for each name, but None in place of that of a few names of another kind; None
        where many are, or prefixes hold numbers, too, as in times.

    >>> frame_numbers(["frame_8", "frame_16", "cover"])
    [8, 16, None]
    >>> frame_numbers(["left_1", "right_1"]) is None
    True
    """
    found = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    prefixes = Counter(match[1] for match in found if match)
    prefix, count = next(iter(prefixes.most_common(1)), ("", 0))
    kinds = Counter(re.sub(r"\d+", "0", each) for each in prefixes)
    few = min(count - 1, max(2, len(names) // 10))
    if len(names) - count > few or kinds[re.sub(r"\d+", "0", prefix)] > 1:
        return None
    return [int(match[2]) if match and match[1] == prefix else None for match in found]


def find_jumps(
    names: Sequence[str],
    step: int | None = None,
    read: Callable[[Sequence[str]], Numbers | None] = frame_numbers,
) -> tuple[int, list[tuple[str, str]]]:
    """Neighbours whose numbers do not differ by ``step``, or one of which has none.

    Args:
        names: as for :func:`frame_numbers`, in the order of their numbers.
        step: what they should differ by; None is the step that most of them have (of equally
            frequent ones the smallest, which leaves out no frame).
        read: gives the numbers of names.

    Returns:
        the step, and the names before and after each jump; none where names are not numbered.

    >>> find_jumps(["01", "02", "04", "05"])
    (1, [('02', '04')])
    """
    numbers = read(names)
    steps = [None if a is None or b is None else b - a for a, b in pairwise(numbers or ())]
    if step is None:
        # Twice the same number is a jump even if it is frequent.
        counts = Counter(found for found in steps if found) or Counter([1])
        step = min(counts, key=lambda found: (-counts[found], found))
    return step, [(names[i], names[i + 1]) for i, found in enumerate(steps) if found != step]
