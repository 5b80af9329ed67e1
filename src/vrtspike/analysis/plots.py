"""Plots of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from vrtspike.analysis.sections import step_parts
from vrtspike.drawing import COLOURS, draw, say
from vrtspike.monitoring.timing_layout import ROOT

MOST_BARS = 24
_BLUE = "#2b6cb0"


def plot_time_per_section(path: str | Path, sections: pd.DataFrame) -> None:
    """Median milliseconds of each section of a step, indented as a tree, with the 95th percentile.

    Args:
        path: where to write.
        sections: as :func:`~vrtspike.analysis.sections.summarize_sections` gives it.
    """
    inner = sections[sections["section"].str.startswith(ROOT + "/")]
    shown = inner.nlargest(MOST_BARS, "p50").sort_index().iloc[::-1]

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        if shown.empty:
            return say(axes, "no section of a step was timed (LOG.ENABLE_TIMING_LOG)")
        names = [section.removeprefix(ROOT + "/") for section in shown["section"]]
        axes.barh(names, shown["p50"], color=_BLUE, label="median")
        axes.plot(shown["p95"], names, "|", color="#1a202c", markersize=9, label="95th percentile")
        rows = zip(names, shown["p50"], shown["p95"], shown["share"], strict=True)
        for name, value, late, share in rows:
            end = max(float(value), float(late))
            axes.annotate(f"  {value:.1f} ms, {share:.0%}", (end, name), va="center", fontsize=8)
        axes.set_xlabel("milliseconds per step")
        axes.margins(x=0.22)
        axes.grid(axis="y", visible=False)
        axes.legend(loc="lower right", frameon=False)

    draw(path, fill, (9.0, 1.4 + 0.26 * max(len(shown), 4)))


def plot_share_of_step(path: str | Path, sections: pd.DataFrame) -> None:
    """What a step's time goes to: one bar, cut into the sections directly under ``step``."""
    parts = step_parts(sections)

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        if not parts:
            return say(axes, "no step was timed (LOG.ENABLE_TIMING_LOG)")
        left = 0.0
        for number, (name, share) in enumerate(parts.items()):
            colour = COLOURS[number % len(COLOURS)]
            axes.barh([0], [share], left=left, color=colour, label=f"{name} {share:.1%}")
            left += share
        axes.set_xlim(0, max(1.0, left))
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_yticks([])
        axes.grid(axis="y", visible=False)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=4, frameon=False)

    draw(path, fill, (8.0, 2.2))


def plot_lines(
    path: str | Path,
    panels: Mapping[str, Mapping[str, tuple[pd.Series, pd.Series]]],
    *,
    logarithmic: frozenset[str] = frozenset(),
    missing: str,
    x_label: str = "optimiser step",
) -> None:
    """Curves over the steps, one panel for each quantity.

    Args:
        path: where to write.
        panels: for each panel's title (the quantity and its unit) the curves: label to x and y.
            Values that are not finite leave gaps.
        logarithmic: titles of the panels with a logarithmic y axis.
        missing: what the picture says where no curve has a value.
        x_label: what x is.
    """
    filled = {
        title: kept
        for title, curves in panels.items()
        if (kept := {label: (x, y) for label, (x, y) in curves.items() if y.notna().any()})
    }

    def fill(figure: Figure) -> None:
        if not filled:
            return say(figure.subplots(), missing)
        rows = figure.subplots(len(filled), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (title, curves) in zip(rows, filled.items(), strict=True):
            for label, (x, y) in curves.items():
                marker = "o" if len(x) <= 25 else ""
                axes.plot(x, y, marker=marker, markersize=3, linewidth=1.4, label=label)
            axes.set_ylabel(title)
            if title in logarithmic and min(float(y.min()) for _, y in curves.values()) > 0:
                axes.set_yscale("log")
            if len(curves) > 1:
                axes.legend(frameon=False, fontsize=8)
        rows[-1].set_xlabel(x_label)
        rows[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        return None

    draw(path, fill, (8.0, 1.0 + 2.4 * max(1, len(filled))))
