"""Plots by matplotlib, without a display; equal data give equal files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from vrtspike.io.files import atomic_path

COLORS = ("#2b6cb0", "#dd6b20", "#2f855a", "#b83280", "#6b46c1", "#b7791f", "#4a5568")
_CHINESE = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Microsoft YaHei",
    "SimHei",
)
_STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=COLORS),
    "grid.color": "#e2e8f0",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "vrtspike",
}


_NO_DATE: Mapping[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Metadata by suffix of a file, without the date."""


@contextmanager
def styled_figure(
    paths: Sequence[Path],
    size: tuple[float, float],
    style: Any,  # noqa: ANN401 - by names that matplotlib lists
    *,
    dpi: int,
    layout: Literal["constrained"] | None = "constrained",
) -> Iterator[Figure]:
    """Provide an empty figure, and write it to files after the body, each atomically.

    Args:
        paths: files of the figure, ``.svg``, ``.png`` or ``.pdf``.
        size: width and height in inches.
        style: settings of matplotlib that hold within the body.
        dpi: pixels per inch of PNG files.
        layout: ``constrained`` lets matplotlib arrange the axes.
    """
    with mpl.rc_context(style):
        figure = Figure(figsize=size, layout=layout)
        yield figure
        for path in paths:
            with atomic_path(path) as temporary:
                figure.savefig(temporary, metadata=_NO_DATE.get(path.suffix), dpi=dpi)


@contextmanager
def drawn_figure(
    path: str | Path, size: tuple[float, float] = (8.0, 4.0), *, grid: bool = True
) -> Iterator[Figure]:
    """Provide an empty figure for a page, and write it after the body.

    Args:
        path: file of the figure, ``.svg`` or ``.png``.
        size: width and height in inches.
        grid: if true, draw grid lines.
    """
    style = _STYLE | {"font.family": with_chinese("DejaVu Sans"), "axes.grid": grid}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        with styled_figure([Path(path)], size, style, dpi=100) as figure:
            yield figure


def with_chinese(font: str) -> list[str]:
    """Return a font, and one with Chinese characters if this machine has one."""
    installed = set(font_manager.get_font_names())
    chinese = [name for name in _CHINESE if name in installed]
    return [font, *chinese[:1]]


def show_text(axes: Axes, text: str) -> None:
    """Show a text instead of a plot."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
