"""Loops of machine code, from a disassembler's listing.

A loop is what is jumped back to from code that can be reached through it alone: its head dominates
the jump (Aho et al., "Compilers", section 9.6). Code that waits for a barrier out of line also
jumps back, but to a place that is reached without it, too.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(.*?);")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_BRANCH = re.compile(r"\bBRA\b.*`\((\.L_x_\d+)\)")
_ALWAYS = re.compile(r"^(BRA `|EXIT\b|RET\b)")
_SPECIAL = re.compile(r"\bMUFU\b")
_ENDS = re.compile(r"\b(EXIT|RET)\b")
# Waiting for a barrier is a loop of a few instructions inside of the one that counts.
_WAITING = 12


class Count(NamedTuple):
    """Instructions of a kernel.

    Attributes:
        all: that can be reached.
        loops: of these, those of each loop outside of loops in it, in the order of the code. Loops
            that only wait are part of what is around them.
    """

    all: int
    loops: tuple[int, ...]


class Block(NamedTuple):
    """Instructions without a branch among them.

    Attributes:
        size: how many there are.
        special: how many of them the unit for exponentials, roots and quotients computes.
        after: the first instructions of the blocks that may come next.
    """

    size: int
    special: int
    after: Sequence[int]


Blocks = Mapping[int, Block]
"""Blocks by their first instruction."""


def counted(listing: str) -> tuple[Count, Count]:
    """Instructions of a kernel, and those of the unit for exponentials.

    Args:
        listing: as ``nvdisasm -c`` writes it.
    """
    blocks = _reached(_blocks(*_parsed(listing)))
    sizes = {start: block.size for start, block in blocks.items()}
    special = {start: block.special for start, block in blocks.items()}
    loops = {h: body for h, body in _loops(blocks).items() if _sum(sizes, body) > _WAITING}
    own = []
    for head, body in sorted(loops.items()):
        inner = [other for start, other in loops.items() if start != head and start in body]
        own.append(body.difference(*inner))
    every, of_unit = (
        Count(sum(of.values()), tuple(_sum(of, body) for body in own)) for of in (sizes, special)
    )
    return every, of_unit


def _sum(numbers: Mapping[int, int], of: Iterable[int]) -> int:
    return sum(numbers[start] for start in of)


def _parsed(listing: str) -> tuple[list[str], dict[str, int]]:
    """Instructions, and which of them stands behind each label."""
    instructions: list[str] = []
    labels: dict[str, int] = {}
    for line in listing.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif instruction := _INSTRUCTION.match(line):
            instructions.append(instruction[1])
    return instructions, labels


def _blocks(instructions: Sequence[str], labels: Mapping[str, int]) -> Blocks:
    after: dict[int, list[int]] = {}
    for at, text in enumerate(instructions):
        branch = _BRANCH.search(text)
        if branch or _ENDS.search(text):
            targets = [labels[branch[1]]] if branch else []
            after[at] = targets if _ALWAYS.match(text) else [*targets, at + 1]
    count = len(instructions)
    starts = {0, *(at + 1 for at in after), *itertools.chain(*after.values())}
    ordered = [*sorted(starts - {count}), count]
    blocks = {}
    for start, end in itertools.pairwise(ordered):
        special = sum(bool(_SPECIAL.search(text)) for text in instructions[start:end])
        following = [to for to in after.get(end - 1, [end]) if to < count]
        blocks[start] = Block(end - start, special, following)
    return blocks


def _reached(blocks: Blocks) -> Blocks:
    """Without what fills up the code behind the last instruction."""
    found = _walked(0, {start: block.after for start, block in blocks.items()}, set())
    return {start: block for start, block in blocks.items() if start in found}


def _walked(start: int, ways: Mapping[int, Sequence[int]], found: set[int]) -> set[int]:
    """Adds to ``found`` what can be reached from ``start`` without passing what it holds."""
    waiting = [start]
    while waiting:
        if (block := waiting.pop()) not in found:
            found.add(block)
            waiting.extend(ways[block])
    return found


def _before(blocks: Blocks) -> dict[int, list[int]]:
    """The blocks that may come before each."""
    found: dict[int, list[int]] = {start: [] for start in blocks}
    for start, block in blocks.items():
        for to in block.after:
            found[to].append(start)
    return found


def _dominators(before: Mapping[int, Sequence[int]]) -> dict[int, set[int]]:
    """For each block those that every way to it passes, itself among them."""
    found = {start: set(before) if start else {0} for start in before}
    changed = True
    while changed:
        changed = False
        for start in found:
            if start:
                passed = {start} | set.intersection(*(found[other] for other in before[start]))
                changed |= passed != found[start]
                found[start] = passed
    return found


def _loops(blocks: Blocks) -> dict[int, set[int]]:
    """The blocks of each loop, by its head."""
    before = _before(blocks)
    dominators = _dominators(before)
    loops: dict[int, set[int]] = {}
    for start, block in blocks.items():
        for head in dominators[start].intersection(block.after):
            _walked(start, before, loops.setdefault(head, {head}))
    return loops
