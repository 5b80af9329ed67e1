"""Plots by matplotlib, without a display; equal data give equal files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

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


@contextmanager
def drawn_figure(
    path: str | Path, size: tuple[float, float] = (8.0, 4.0), *, grid: bool = True
) -> Iterator[Figure]:
    """Provide an empty figure, and write it atomically after the body.

    Args:
        path: file of the figure, ``.svg`` or ``.png``.
        size: width and height in inches.
        grid: if true, draw grid lines.
    """
    style = _STYLE | {"font.family": _fonts(), "axes.grid": grid}
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        metadata = {"Date": None} if Path(path).suffix == ".svg" else None
        with atomic_path(path) as temporary:
            figure.savefig(temporary, metadata=metadata, dpi=100)


@cache
def _fonts() -> list[str]:
    """Return the default font, and one with Chinese characters if this machine has one."""
    installed = set(font_manager.get_font_names())
    chinese = [name for name in _CHINESE if name in installed]
    return ["DejaVu Sans", *chinese[:1]]


def show_text(axes: Axes, text: str) -> None:
    """Show a text instead of a plot."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
