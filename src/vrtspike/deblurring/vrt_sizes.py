"""Which sizes can make a VRT; asked when a preset is read and when the model is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

STAGES = 7
"""Stages before the reconstruction groups of stage 8."""

# Stages whose outputs are added, counted from 0.
_SKIPS = ((4, 2), (5, 1), (6, 0))


@dataclass(frozen=True)
class BackboneNames:
    """What the sizes are called where they were given."""

    depths: str
    widths: str
    heads: str
    groups: str


def backbone_faults(
    names: BackboneNames,
    depths: Sequence[int],
    widths: Sequence[int],
    heads: Sequence[int],
    groups: int,
) -> Iterator[str]:
    """Say why sizes cannot make a VRT, each fault with what was found and expected.

    Args:
        names: for the messages.
        depths: blocks of stages 1-7 and of each group of stage 8.
        widths: channels, one for each entry of ``depths``.
        heads: attention heads, one for each entry of ``depths``.
        groups: offset groups of the alignment; 0 for a network without.
    """
    if len(depths) <= STAGES:
        yield (
            f"{names.depths} has {len(depths)} entries; expected {STAGES} for stages 1-7 and at "
            "least one for a group of stage 8"
        )
        return
    for name, values in ((names.widths, widths), (names.heads, heads)):
        if len(values) != len(depths):
            yield (
                f"{name} has {len(values)} entries and {names.depths} has {len(depths)}; give one "
                "for each"
            )
            return
    for name, values in ((names.depths, depths), (names.widths, widths), (names.heads, heads)):
        if min(values) < 1:
            yield f"{name} has an entry {min(values)}; expected positive numbers"
            return
    if len(set(widths[STAGES:])) != 1:
        yield (
            f"{names.widths} of stage 8 are {list(widths[STAGES:])}; its groups must have the "
            "same width"
        )
    for i, (width, number) in enumerate(zip(widths, heads, strict=True)):
        if width % number:
            yield f"{names.widths}[{i}] is {width}, no multiple of {names.heads}, {number}"
    for i, width in enumerate(widths[:STAGES]):
        if groups and width % groups:
            yield f"{names.widths}[{i}] is {width}, no multiple of {names.groups}, {groups}"
        if width % 4:
            yield f"{names.widths}[{i}] is {width}; stages 1-7 need a multiple of 4"
    for late, early in _SKIPS:
        if widths[late] != widths[early]:
            yield (
                f"{names.widths}[{late}] is {widths[late]} and {names.widths}[{early}] is "
                f"{widths[early]}; stages {late + 1} and {early + 1} are added, so they must be "
                "equal"
            )
