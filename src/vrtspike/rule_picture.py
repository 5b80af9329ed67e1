"""The rules of the workflow as a picture: a graph that Snakemake prints, drawn as SVG."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from vrtspike.graphs import all_before

COLUMNS = 6
_WIDTH, _HEIGHT = 150, 50
_ACROSS, _DOWN, _BETWEEN_ROWS, _MARGIN = 22, 14, 40, 22
_STYLE = """\
text { font: 11px Helvetica, Arial, sans-serif; fill: #57606a; text-anchor: middle }
.name { font: bold 12.5px Helvetica, Arial, sans-serif; fill: #1f2328 }
rect { fill: #f6f8fa; stroke: #8c959f }
path { fill: none; stroke: #8c959f; stroke-width: 1.5 }
.tip { fill: #8c959f; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 }
  .name { fill: #f0f6fc }
  rect { fill: #212830; stroke: #656c76 }
  path { stroke: #656c76 }
  .tip { fill: #656c76 }
}"""


@dataclass(frozen=True)
class RuleGraph:
    """Rules, and which of them reads what which other one writes.

    Attributes:
        after: for each rule, in the order in which they are drawn, the rules that it reads from.
    """

    after: Mapping[str, frozenset[str]]

    @classmethod
    def from_dot(cls, text: str) -> RuleGraph:
        """Read what ``snakemake --rulegraph dot`` prints; other lines are skipped.

        Raises:
            ValueError: if there is no rule in it.

        >>> RuleGraph.from_dot('0[label = "b", x]\\n1[label = "a", x]\\n1 -> 0').after
        {'a': frozenset(), 'b': frozenset({'a'})}
        """
        names = dict(re.findall(r'^\s*(\d+)\[label = "(\w+)"', text, re.MULTILINE))
        if not names:
            raise ValueError("no rules; expected the output of snakemake --rulegraph dot")
        edges = re.findall(r"^\s*(\d+) -> (\d+)", text, re.MULTILINE)
        before = {
            name: frozenset(names[a] for a, b in edges if b == number)
            for number, name in names.items()
        }
        return cls({name: before[name] for name in sorted(before)})

    def starting_at(self, source: str, replaced: Iterable[str] = ()) -> RuleGraph:
        """The graph in which everything without a predecessor reads from ``source``.

        Args:
            source: what the first rules read.
            replaced: rules that ``source`` stands for; they are left out.
        """
        gone = set(replaced)
        after = {name: before - gone for name, before in self.after.items() if name not in gone}
        first = frozenset({source})
        return RuleGraph({source: frozenset(), **{n: b or first for n, b in after.items()}})

    def reduced(self) -> RuleGraph:
        """Without the arrows that follow from others.

        >>> RuleGraph({"a": frozenset(), "b": frozenset("a"), "c": frozenset("ab")}).reduced().after
        {'a': frozenset(), 'b': frozenset({'a'}), 'c': frozenset({'b'})}
        """
        above = {name: all_before(self.after, [name]) for name in self.after}
        return RuleGraph(
            {
                name: frozenset(b for b in before if not any(b in above[o] for o in before))
                for name, before in self.after.items()
            }
        )

    def layers(self) -> dict[str, int]:
        """How many rules come before each, at most.

        >>> RuleGraph({"a": frozenset(), "b": frozenset("a"), "c": frozenset("ab")}).layers()
        {'a': 0, 'b': 1, 'c': 2}
        """
        found: dict[str, int] = {}

        def layer(name: str) -> int:
            if name not in found:
                found[name] = 1 + max((layer(before) for before in self.after[name]), default=-1)
            return found[name]

        return {name: layer(name) for name in self.after}


@dataclass(frozen=True)
class _Place:
    """Where a rule stands: row of the picture, column of the row, lane of the column."""

    row: int
    column: int
    lane: int


def draw(graph: RuleGraph, words: Mapping[str, str], title: str) -> str:
    """The graph as an SVG file, in rows from left to right; equal graphs give equal files.

    Args:
        graph: the rules.
        words: what stands below the names, for those rules that have any.
        title: read aloud in place of the picture.
    """
    graph = graph.reduced()
    places = _places(graph)
    tops = _tops(places.values())
    width = 2 * _MARGIN + COLUMNS * (_WIDTH + _ACROSS) - _ACROSS
    columns = 1 + max(place.column for place in places.values())
    width = min(width, 2 * _MARGIN + columns * (_WIDTH + _ACROSS) - _ACROSS)
    arrows = [
        _arrow(places[before], places[name], tops, width)
        for name, all_before in graph.after.items()
        for before in sorted(all_before)
    ]
    boxes = [_box(name, words.get(name, ""), _corner(places[name], tops)) for name in graph.after]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {tops[-1]}" '
            f'width="{width}" height="{tops[-1]}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_STYLE}\n</style>",
            *arrows,
            *boxes,
            "</svg>\n",
        ]
    )


def _places(graph: RuleGraph) -> dict[str, _Place]:
    """The rule that leads farthest stays in the first lane, of several the one to most others."""
    layers = graph.layers()
    length = dict.fromkeys(graph.after, 0)
    for name in sorted(graph.after, key=lambda name: -layers[name]):
        for before in graph.after[name]:
            length[before] = max(length[before], 1 + length[name])
    followers = Counter(before for all_before in graph.after.values() for before in all_before)
    columns: dict[int, list[str]] = {}
    for name in sorted(graph.after, key=lambda name: (-length[name], -followers[name], name)):
        columns.setdefault(layers[name], []).append(name)
    return {
        name: _Place(*divmod(layer, COLUMNS), lane)
        for layer, names in columns.items()
        for lane, name in enumerate(names)
    }


def _tops(places: Iterable[_Place]) -> list[int]:
    """The upper edge of each row, and the lower edge of the picture."""
    lanes: dict[int, int] = {}
    for place in places:
        lanes[place.row] = max(lanes.get(place.row, 1), place.lane + 1)
    tops = [_MARGIN // 2]
    for row in sorted(lanes):
        tops.append(tops[-1] + lanes[row] * (_HEIGHT + _DOWN) - _DOWN + _BETWEEN_ROWS)
    tops[-1] += _MARGIN // 2 - _BETWEEN_ROWS
    return tops


def _corner(place: _Place, tops: Sequence[int]) -> tuple[int, int]:
    x = _MARGIN + place.column * (_WIDTH + _ACROSS)
    return x, tops[place.row] + place.lane * (_HEIGHT + _DOWN)


def _box(name: str, words: str, corner: tuple[int, int]) -> str:
    x, y = corner
    middle = x + _WIDTH // 2
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text class="name" x="{middle}" y="{y + (21 if words else 30)}">{escape(name)}</text>'
        + (f'<text x="{middle}" y="{y + 38}">{escape(words)}</text>' if words else "")
    )


def _arrow(start: _Place, end: _Place, tops: Sequence[int], width: int) -> str:
    """From the right side of a box to the left side of another, past those in between."""
    (x0, y0), (x1, y1) = _corner(start, tops), _corner(end, tops)
    x0, y0, y1 = x0 + _WIDTH, y0 + _HEIGHT // 2, y1 + _HEIGHT // 2
    tip = f'<path class="tip" d="M{x1} {y1}l-7 -4v8z"/>'
    x1 -= 6
    bend = _ACROSS - 6
    if start.row != end.row:
        between = tops[end.row] - _BETWEEN_ROWS // 2
        right, left = width - _MARGIN // 2, _MARGIN // 2
        line = (
            f"M{x0} {y0}H{right - 6}q6 0 6 6V{between - 6}q0 6 -6 6"
            f"H{left + 6}q-6 0 -6 6V{y1 - 6}q0 6 6 6H{x1}"
        )
    elif y0 >= y1:  # in the lane of the first, then up
        line = f"M{x0} {y0}H{x1 - bend}c{bend // 2} 0 {bend // 2} {y1 - y0} {bend} {y1 - y0}"
    else:
        line = f"M{x0} {y0}c{bend // 2} 0 {bend // 2} {y1 - y0} {bend} {y1 - y0}H{x1}"
    return f'<path d="{line}"/>{tip}'
