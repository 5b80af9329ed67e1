"""Boxes, arrows and words of an SVG drawing.

A drawing has a light ground of its own, so that it is readable on light and dark pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

Point = tuple[float, float]
"""Pixels to the right and down."""

FONT = "Helvetica, Arial, sans-serif"
FONT_SIZE = 13
LINE_HEIGHT = 17
TEXT_COLOR = "#1f2328"
NOTE_COLOR = "#57606a"
_HEAD = 7
"""Length of an arrow's head in pixels."""


class Style(NamedTuple):
    """Colours of a kind of box."""

    fill: str
    stroke: str


FRAME = Style("#fff8e1", "#c0a040")
SPIKE = Style("#e0f2f1", "#00897b")
NETWORK = Style("#e8eaf6", "#5c6bc0")
RULE = Style("#ffffff", "#b0b8c1")


@dataclass(frozen=True)
class Box:
    """A rectangle by its left and upper edge, width and height."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> Point:
        """Middle of the left edge."""
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        """Middle of the right edge."""
        return self.x + self.width, self.y + self.height / 2

    @property
    def top(self) -> Point:
        """Middle of the upper edge."""
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> Point:
        """Middle of the lower edge."""
        return self.x + self.width / 2, self.y + self.height


class Drawing:
    """Elements of a drawing in the order in which they are drawn.

    Args:
        width: width in pixels.
        height: height in pixels.
        title: description for those who cannot see it.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        size = f'width="{width}" height="{height}"'
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" '
            f'role="img" font-family="{FONT}" font-size="{FONT_SIZE}">',
            f"<title>{escape(title)}</title>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" '
            'fill="#ffffff" stroke="#d0d7de"/>',
        ]

    def box(self, box: Box, lines: Sequence[str], style: Style) -> Box:
        """Draw a box with centred lines, the first one bold if there are several."""
        self.rectangle(box, style, radius=5)
        x, middle = box.x + box.width / 2, box.y + box.height / 2
        first = middle - LINE_HEIGHT * (len(lines) - 1) / 2
        for number, line in enumerate(lines):
            is_bold = number == 0 and len(lines) > 1
            self.text((x, first + number * LINE_HEIGHT), line, anchor="middle", bold=is_bold)
        return box

    def rectangle(self, box: Box, style: Style, *, radius: int = 0) -> None:
        """Draw a rectangle without words."""
        self._parts.append(
            f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" '
            f'rx="{radius}" fill="{style.fill}" stroke="{style.stroke}"/>'
        )

    def text(
        self,
        point: Point,
        words: str,
        *,
        anchor: str = "start",
        bold: bool = False,
        color: str = TEXT_COLOR,
    ) -> None:
        """Draw a line of words, vertically centred at a point."""
        weight = ' font-weight="bold"' if bold else ""
        self._parts.append(
            f'<text x="{point[0]:g}" y="{point[1] + FONT_SIZE / 3:.1f}" text-anchor="{anchor}" '
            f'fill="{color}"{weight}>{escape(words)}</text>'
        )

    def note(self, point: Point, words: str, *, anchor: str = "start") -> None:
        """Draw a remark, in grey."""
        self.text(point, words, anchor=anchor, color=NOTE_COLOR)

    def line(self, points: Sequence[Point], style: Style, *, dashed: bool = False) -> None:
        """Draw a line through points."""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{style.stroke}" '
            f'stroke-width="1.5"{dashes}/>'
        )

    def arrow(self, points: Sequence[Point], style: Style) -> None:
        """Draw a line through points with a head at its end; its last part is straight."""
        (x0, y0), (x, y) = points[-2:]
        if x == x0:
            sign = 1 if y > y0 else -1
            neck = (x, y - sign * _HEAD)
            corners = [(x - _HEAD / 2, neck[1]), (x + _HEAD / 2, neck[1])]
        else:
            sign = 1 if x > x0 else -1
            neck = (x - sign * _HEAD, y)
            corners = [(neck[0], y - _HEAD / 2), (neck[0], y + _HEAD / 2)]
        self.line([*points[:-1], neck], style)
        path = " ".join(f"{a:g},{b:g}" for a, b in [(x, y), *corners])
        self._parts.append(f'<polygon points="{path}" fill="{style.stroke}"/>')

    def plus(self, point: Point) -> None:
        """Draw a sum, a circle with a plus sign."""
        x, y = point
        self._parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="9" fill="#ffffff" stroke="{NETWORK.stroke}"/>'
        )
        self.text(point, "+", anchor="middle", bold=True)

    def chain(self, point: Point, steps: Sequence[str], style: Style, width: float) -> None:
        """Draw steps one after the other, from left to right, over a width.

        Args:
            point: left end, vertically centred.
            steps: a box each; ``+`` is a sum.
            style: colours of the boxes.
            width: from the left end of the first box to the right end of the last one.
        """
        gap = 16.0
        letters = sum(len(step) for step in steps)
        boxes_width = width - gap * (len(steps) - 1)
        # Every box has the same margin beside its letters.
        margin = 12.0
        letter = (boxes_width - margin * len(steps)) / letters
        x, y = point
        for number, step in enumerate(steps):
            if number:
                self.arrow([(x - gap, y), (x, y)], style)
            box = Box(x, y - 13, margin + letter * len(step), 26)
            self.box(box, [step], style)
            x += box.width + gap

    def document(self) -> str:
        """Return the SVG file."""
        return "\n".join([*self._parts, "</svg>", ""])
