"""Figures for a paper: PDF and PNG of a column's or a page's width, readable without colours.

The colours are those of Okabe and Ito, "Color universal design", 2008, which colour-blind readers
tell apart; lines differ in dashes and markers, too, so that a print in grey is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from vrtspike.plotting.drawing import styled_figure, with_chinese

COLUMN_WIDTH = 3.3
TEXT_WIDTH = 6.9
"""Widths in inches of a column and of the text of a page with two columns."""
FONT_SIZE = 8
"""Points."""
MIN_FONT_SIZE = 5.0
DPI = 300
FIGURE_SUFFIXES = (".pdf", ".png")
MARK = "#E69F00"
"""Orange of marks in pictures: visible on dark and on bright scenes with a black border."""

FontName = Literal["sans", "serif"]
_FONTS: dict[FontName, str] = {"sans": "DejaVu Sans", "serif": "STIXGeneral"}
"""Fonts that Matplotlib contains, so that figures depend on the machine for Chinese alone."""
_STYLE: Any = {
    "font.size": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "axes.labelsize": FONT_SIZE,
    "xtick.labelsize": FONT_SIZE - 1,
    "ytick.labelsize": FONT_SIZE - 1,
    "legend.fontsize": FONT_SIZE - 1,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.pad": 2,
    "ytick.major.pad": 2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "figure.constrained_layout.h_pad": 0.02,
    "figure.constrained_layout.w_pad": 0.02,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
    # Names may contain dollars, which would begin a formula.
    "text.parse_math": False,
    # Fonts are embedded as TrueType, because many publishers reject the default, Type 3.
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
}


@dataclass(frozen=True)
class LineStyle:
    """The look of a line and of its points.

    Attributes:
        color: colour in matplotlib's notation.
        dashes: value of matplotlib's ``linestyle``.
        marker: marker in matplotlib's notation.
    """

    color: str
    dashes: Any
    marker: str


INPUT_STYLE = LineStyle("0.45", (0, (1.2, 1.2)), "")
"""The line of the input, in addition to those of models."""

_STYLES = (
    LineStyle("#0072B2", "-", "o"),
    LineStyle("#D55E00", (0, (5, 1.5)), "s"),
    LineStyle("#009E73", (0, (5, 1.5, 1, 1.5)), "^"),
    LineStyle("#CC79A7", (0, (2.5, 1)), "D"),
    LineStyle("#56B4E9", (0, (7, 2)), "v"),
    LineStyle("#E69F00", (0, (5, 1, 1, 1, 1, 1)), "P"),
    LineStyle("#000000", "-", "X"),
)


def line_style(index: int) -> LineStyle:
    """Return the style of a model by its number; the styles repeat after the seventh."""
    return _STYLES[index % len(_STYLES)]


@contextmanager
def paper_figure(
    stem: Path, size: tuple[float, float], font: FontName = "sans", *, constrained: bool = True
) -> Iterator[Figure]:
    """Provide an empty figure, and write it as PDF and PNG after the body.

    Args:
        stem: path of the files without their suffix.
        size: width and height in inches.
        font: font of all texts.
        constrained: if true, matplotlib arranges the axes.
    """
    paths = [stem.with_name(stem.name + suffix) for suffix in FIGURE_SUFFIXES]
    style = _STYLE | {"font.family": with_chinese(_FONTS[font])}
    layout: Literal["constrained"] | None = "constrained" if constrained else None
    with styled_figure(paths, size, style, dpi=DPI, layout=layout) as figure:
        yield figure


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes at a place in inches.

    Args:
        figure: figure without a layout of its own.
        left: distance of the left side from that of the figure.
        top: distance of the upper side from the lower side of the figure.
        width: width of the axes.
        height: height of the axes.
    """
    total_width, total_height = figure.get_size_inches()
    axes: Axes = figure.add_axes(
        (
            left / total_width,
            (top - height) / total_height,
            width / total_width,
            height / total_height,
        )
    )
    return axes


def fit_text(text: Text, width: float) -> None:
    """Make a text smaller until it is no wider than given, down to :data:`MIN_FONT_SIZE`.

    Args:
        text: text of a figure.
        width: inches.
    """
    figure = text.get_figure()
    assert isinstance(figure, Figure)
    present = text.get_window_extent().width / figure.dpi
    if present > width:
        size = float(text.get_fontsize()) * width / present
        text.set_fontsize(max(MIN_FONT_SIZE, size))
