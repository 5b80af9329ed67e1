"""The gain over the length of motion during the exposure: a point for each frame, and medians."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from vrtspike.paper_figures.style import COLUMN_WIDTH, FontName, line_style, paper_figure

MAX_BINS = 8
MIN_FRAMES = 4
"""Minimum frames of a bin."""
_HEIGHT = 2.4
_POINT_AREA = 7


def gain_bins(points: pd.DataFrame) -> pd.DataFrame:
    """Medians of the gain in bins of motion that hold about as many frames each.

    Args:
        points: ``model``, ``motion`` in pixels and ``gain`` in dB, a row for each model and frame.

    Returns:
        ``model``, ``motion`` (median), ``gain`` (median), ``low`` and ``high`` (quartiles of the
        gain) and ``frames`` of each bin, in the order of motion. There are at most
        :data:`MAX_BINS` bins of at least :data:`MIN_FRAMES` frames each; fewer frames than that
        form one bin.
    """
    bins = []
    for model, rows in points.groupby("model", sort=False):
        ordered = rows.sort_values("motion")
        count = min(MAX_BINS, max(1, len(ordered) // MIN_FRAMES))
        for part in np.array_split(np.arange(len(ordered)), count):
            frames = ordered.iloc[part]
            gain = frames["gain"]
            bins.append(
                {
                    "model": model,
                    "motion": frames["motion"].median(),
                    "gain": gain.median(),
                    "low": gain.quantile(0.25),
                    "high": gain.quantile(0.75),
                    "frames": len(frames),
                }
            )
    return pd.DataFrame(bins)


def draw_gain_over_motion(
    stem: Path, points: pd.DataFrame, bins: pd.DataFrame, font: FontName = "sans"
) -> None:
    """Draw points and medians, in the width of a column.

    Args:
        stem: path of the files without their suffix.
        points: as for :func:`gain_bins`.
        bins: from :func:`gain_bins`.
        font: ``sans`` or ``serif``.
    """
    with paper_figure(stem, (COLUMN_WIDTH, _HEIGHT), font) as figure:
        axes = figure.subplots()
        axes.axhline(0, color="0.3", linewidth=0.7)
        for index, model in enumerate(dict.fromkeys(points["model"])):
            style = line_style(index)
            rows = points[points["model"] == model]
            axes.scatter(
                rows["motion"],
                rows["gain"],
                s=_POINT_AREA,
                color=style.color,
                marker=style.marker,
                alpha=0.35,
                linewidths=0,
                # Thousands of points make a PDF slow.
                rasterized=len(rows) > 500,
            )
            medians = bins[bins["model"] == model]
            axes.plot(
                medians["motion"],
                medians["gain"],
                color=style.color,
                linestyle=style.dashes,
                marker=style.marker,
                markeredgecolor="white",
                markeredgewidth=0.4,
                markersize=4.2,
                label=model,
            )
        axes.set_xlabel("motion during the exposure, px")
        axes.set_ylabel("gain in PSNR, dB")
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        figure.legend(
            loc="outside upper center",
            ncols=min(3, len(axes.get_legend_handles_labels()[1])),
            columnspacing=1.2,
            borderaxespad=0.1,
        )
