"""x-t slices: one row of a sequence over time, in which flicker shows as stripes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from vrtspike.data.rgb_images import Image
from vrtspike.paper_figures.style import (
    COLUMN_WIDTH,
    FONT_SIZE,
    MARK,
    FontName,
    axes_at,
    paper_figure,
)

_FRAME_HEIGHT = 0.022
"""Height in inches of a frame in a slice, within the limits below."""
_MIN_HEIGHT = 0.35
_USUAL_MIN_HEIGHT = 0.5
"""Minimum height in inches where there is room for it."""
_MAX_HEIGHT = 1.6
_MAX_TOGETHER = 5.0
"""Maximum height in inches of all slices: a page has 9."""
_STRIP_SHARE = 0.3
"""Height of the drawn part of the frame, as a share of its width."""
_GAP = 0.06
_LEFT = 0.36
_TITLE = 0.17
_AXIS = 0.32


def slice_of(frames: Iterable[Image], row: int) -> Image:
    """Return the x-t slice of a row: uint8 (T, W, 3), the first frame on top.

    Args:
        frames: uint8 (H, W, 3), read one at a time.
        row: from 0, the uppermost.
    """
    return np.stack([frame[row] for frame in frames])


def slice_table(slices: Mapping[str, Image], sharp: str | None) -> pd.DataFrame:
    """Return the flicker of each slice: a row for each image and frame.

    Args:
        slices: x-t slices by the name of the image.
        sharp: name of the sharp one, if any.

    Returns:
        ``image``, ``number`` (from 1), ``change``: mean absolute difference to the row of the
        frame before, and ``flicker``: mean absolute difference between this change and that of the
        sharp row, pixel by pixel; in grey levels. The first frame has neither; without sharp
        frames there is no flicker.
    """
    changes = {name: np.diff(values.astype(np.float64), axis=0) for name, values in slices.items()}
    table_rows = []
    for name, change in changes.items():
        table_rows.append({"image": name, "number": 1})
        for index, values in enumerate(change):
            entry = {
                "image": name,
                "number": index + 2,
                "change": float(np.abs(values).mean()),
            }
            if sharp is not None:
                entry["flicker"] = float(np.abs(values - changes[sharp][index]).mean())
            table_rows.append(entry)
    columns = ["image", "number", "change", "flicker"]
    return pd.DataFrame(table_rows).reindex(columns=columns)


def draw_xt(
    stem: Path,
    title: str,
    whole: Image,
    row: int,
    slices: Mapping[str, Image],
    font: FontName = "sans",
) -> None:
    """Draw the frame with the row, and the slices below it, in the width of a column.

    Args:
        stem: path of the files without their suffix.
        title: above the frame.
        whole: the frame that the row is drawn in, (H, W, 3).
        row: from 0.
        slices: uint8 (T, W, 3) by their names.
        font: ``sans`` or ``serif``.
    """
    width = COLUMN_WIDTH - _LEFT
    strip_rows = _strip_rows(whole, row)
    strip_height = width * len(strip_rows) / whole.shape[1]
    height = _slice_height(len(next(iter(slices.values()))), len(slices))
    total = _TITLE + strip_height + len(slices) * (_TITLE + height + _GAP) + _AXIS
    with paper_figure(stem, (COLUMN_WIDTH, total), font, constrained=False) as figure:
        top = total - _TITLE
        axes = axes_at(figure, _LEFT, top, width, strip_height)
        _draw_strip(axes, whole, strip_rows, row)
        axes.set_title(title, loc="left", fontsize=FONT_SIZE, pad=2)
        top -= strip_height
        for name, values in slices.items():
            top -= _TITLE + _GAP
            axes = axes_at(figure, _LEFT, top, width, height)
            _draw_slice(axes, name, values)
            top -= height
        # Of the lowest slice.
        axes.tick_params(labelbottom=True, bottom=True)
        axes.set_xlabel("x, px", labelpad=1)


def _strip_rows(whole: Image, row: int) -> range:
    """Return the rows about one that are drawn: a whole frame would be most of the figure."""
    count = min(whole.shape[0], max(1, round(whole.shape[1] * _STRIP_SHARE)))
    first = int(np.clip(row - count // 2, 0, whole.shape[0] - count))
    return range(first, first + count)


def _slice_height(frames: int, slices: int) -> float:
    """Return the height in inches of each of some slices, which have so many frames."""
    max_height = max(_MIN_HEIGHT, min(_MAX_HEIGHT, _MAX_TOGETHER / slices))
    min_height = min(_USUAL_MIN_HEIGHT, max_height)
    return float(np.clip(frames * _FRAME_HEIGHT, min_height, max_height))


def _draw_strip(axes: Axes, whole: Image, rows: range, row: int) -> None:
    """Draw some rows of a frame, with a line on one of them."""
    axes.grid(visible=False)
    extent = (0, whole.shape[1], rows.stop, rows.start)
    strip = whole[rows.start : rows.stop]
    axes.imshow(strip, extent=extent, interpolation="antialiased", aspect="auto")
    axes.axhline(row + 0.5, color="black", linewidth=2.0)
    axes.axhline(row + 0.5, color=MARK, linewidth=1.0)
    axes.set_axis_off()


def _draw_slice(axes: Axes, name: str, values: Image) -> None:
    """Draw a slice with the numbers of its frames."""
    frames, width = values.shape[:2]
    axes.grid(visible=False)
    extent = (0, width, frames + 0.5, 0.5)
    axes.imshow(values, extent=extent, interpolation="none", aspect="auto")
    axes.set_title(name, loc="left", fontsize=FONT_SIZE, pad=2)
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.set_ylabel("frame", labelpad=1)
    axes.yaxis.set_label_coords(-0.07, 0.5)
    axes.tick_params(labelbottom=False, bottom=False)
