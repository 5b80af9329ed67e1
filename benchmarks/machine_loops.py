"""Loops of machine code, from a disassembler's listing.

A loop is what is jumped back to from code that can be reached through it alone: its head dominates
the jump (Aho et al., "Compilers", section 9.6). Code that waits for a barrier out of line also
jumps back, but to a place that is reached without it, too.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import networkx as nx

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(.*?);")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_BRANCH = re.compile(r"\bBRA\b.*`\((\.L_x_\d+)\)")
_ALWAYS = re.compile(r"^(BRA `|EXIT\b|RET\b)")
_SPECIAL = re.compile(r"\bMUFU\b")
_ENDS = re.compile(r"\b(EXIT|RET)\b")
# Waiting for a barrier is a loop of a few instructions inside of the one that counts.
_WAITING = 12


Blocks = Any
"""A ``networkx.DiGraph``: it has no types."""


class Count(NamedTuple):
    """Instructions of a kernel.

    Attributes:
        all: that can be reached.
        loops: of these, those of each loop outside of loops in it, in the order of the code. Loops
            that only wait are part of what is around them.
    """

    all: int
    loops: tuple[int, ...]


def counted(listing: str) -> tuple[Count, Count]:
    """Instructions of a kernel, and those of the unit for exponentials.

    Args:
        listing: as ``nvdisasm -c`` writes it.
    """
    blocks = _blocks(*_parsed(listing))
    # What fills up the code behind the last instruction is not reached.
    blocks = blocks.subgraph({0, *nx.descendants(blocks, 0)})
    loops = {h: body for h, body in _loops(blocks).items() if _sum(blocks, body, "all") > _WAITING}
    own = []
    for head, body in sorted(loops.items()):
        inner = [other for start, other in loops.items() if start != head and start in body]
        own.append(body.difference(*inner))
    every, of_unit = (
        Count(_sum(blocks, blocks, kind), tuple(_sum(blocks, body, kind) for body in own))
        for kind in ("all", "special")
    )
    return every, of_unit


def _sum(blocks: Blocks, of: Iterable[int], kind: str) -> int:
    return sum(blocks.nodes[start][kind] for start in of)


def _parsed(listing: str) -> tuple[list[str], dict[str, int]]:
    """Instructions, and the index of the one after each label."""
    instructions: list[str] = []
    labels: dict[str, int] = {}
    for line in listing.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif instruction := _INSTRUCTION.match(line):
            instructions.append(instruction[1])
    return instructions, labels


def _blocks(instructions: Sequence[str], labels: Mapping[str, int]) -> Blocks:
    """Instructions without a branch among them, by the first one, and which may follow which."""
    after: dict[int, list[int]] = {}
    for at, text in enumerate(instructions):
        branch = _BRANCH.search(text)
        if branch or _ENDS.search(text):
            targets = [labels[branch[1]]] if branch else []
            after[at] = targets if _ALWAYS.match(text) else [*targets, at + 1]
    count = len(instructions)
    starts = {0, *(at + 1 for at in after), *itertools.chain(*after.values())}
    ordered = [*sorted(starts - {count}), count]
    blocks: Blocks = nx.DiGraph()
    for start, end in itertools.pairwise(ordered):
        special = sum(bool(_SPECIAL.search(text)) for text in instructions[start:end])
        blocks.add_node(start, all=end - start, special=special)
        following = after.get(end - 1, [end])
        blocks.add_edges_from((start, to) for to in following if to < count)
    return blocks


def _loops(blocks: Blocks) -> dict[int, set[int]]:
    """The blocks of each loop, by its head."""
    over = nx.DiGraph((parent, start) for start, parent in _dominators(blocks).items())
    loops: dict[int, set[int]] = {}
    for start, head in blocks.edges:
        if start == head or start in nx.descendants(over, head):
            around = nx.subgraph_view(blocks, filter_node=lambda node, head=head: node != head)
            before = set() if start == head else {start, *nx.ancestors(around, start)}
            loops.setdefault(head, {head}).update(before)
    return loops


def _dominators(blocks: Blocks) -> dict[int, int]:
    """The block that every way to each block passes last; of the first one itself."""
    found: dict[int, int] = nx.immediate_dominators(blocks, 0)
    return {**found, 0: 0}
