"""The grid of crops: blurry, spikes of the instant, each model and sharp, with their place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from vrtspike.data.rgb_images import Image
from vrtspike.metrics.psnr import psnr
from vrtspike.paper_figures.crop_boxes import Box
from vrtspike.paper_figures.style import (
    FONT_SIZE,
    MARK,
    TEXT_WIDTH,
    FontName,
    axes_at,
    fit_text,
    paper_figure,
)

_GAP = 0.05
_LABEL = 0.33
"""Height in inches of the two lines below a crop."""
_BAR = 0.42
"""Height in inches of the colour bar with its labels."""
_BAR_WIDTH = 2.4
ERROR_COLORS = "magma"
"""The lightness of this colour map rises evenly, so that a print in grey shows the same order."""
_ERROR_SHARE = 99.5
"""Percentile of all errors that is drawn in the brightest colour."""


@dataclass(frozen=True, eq=False)
class Cell:
    """A crop of one picture.

    Attributes:
        label: below the crop.
        picture: uint8 (h, w, 3) RGB or (h, w) grey.
        psnr: in dB against the sharp crop; None where there is none.
        error: mean absolute difference to the sharp crop over the channels, in grey levels (h, w);
            None where there is none.
    """

    label: str
    picture: NDArray[np.uint8]
    psnr: float | None = None
    error: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class CropRow:
    """The crops of one place.

    Attributes:
        sequence: name of the sequence.
        frame: name of the frame.
        whole: the frame that the place is drawn in.
        box: place of the crop in the frame.
        cells: pictures of the crop, from left to right.
    """

    sequence: str
    frame: str
    whole: Image
    box: Box
    cells: Sequence[Cell]


def compared_cell(label: str, image: Image, sharp: Image | None, box: Box) -> Cell:
    """Return a crop of an image, compared with the sharp frame if there is one."""
    picture = box.crop(image)
    if sharp is None:
        return Cell(label, picture)
    truth = box.crop(sharp)
    error = np.abs(picture.astype(np.float64) - truth).mean(axis=-1)
    return Cell(label, picture, psnr(picture, truth), np.asarray(error))


def crop_table(rows: Sequence[CropRow]) -> pd.DataFrame:
    """Return a table of the figure's numbers, a row for each crop."""
    table_rows = []
    for row in rows:
        for cell in row.cells:
            mean_error = None if cell.error is None else float(cell.error.mean())
            table_rows.append(
                {
                    "sequence": row.sequence,
                    "frame": row.frame,
                    "x": row.box.x,
                    "y": row.box.y,
                    "width": row.box.width,
                    "height": row.box.height,
                    "image": cell.label,
                    "psnr": cell.psnr,
                    "mean_absolute_error": mean_error,
                }
            )
    return pd.DataFrame(table_rows)


def draw_crops(
    stem: Path, rows: Sequence[CropRow], font: FontName = "sans", *, error_maps: bool = False
) -> None:
    """Draw rows of crops, as wide as the text.

    Args:
        stem: path of the files without their suffix.
        rows: at least one.
        font: ``sans`` or ``serif``.
        error_maps: draw the error of each compared crop below it, and one colour bar. Each row then
            has a compared crop.
    """
    heights = [_row_height(row, error_maps) for row in rows]
    total = sum(heights) + _GAP * (len(rows) - 1) + (_BAR if error_maps else 0)
    top_error = _top_error(rows) if error_maps else None
    with paper_figure(stem, (TEXT_WIDTH, total), font, constrained=False) as figure:
        top = total
        shown = None
        for row, height in zip(rows, heights, strict=True):
            shown = _draw_row(figure, row, top, top_error)
            top -= height + _GAP
        if shown is not None:
            _draw_bar(figure, shown)


def _crop_width(row: CropRow) -> float:
    """Return the width of a crop in inches, at which the frame and all crops fill the text."""
    height, width = row.whole.shape[:2]
    aspect = row.box.height / row.box.width
    count = len(row.cells)
    return (TEXT_WIDTH - count * _GAP) / (count + aspect * width / height)


def _row_height(row: CropRow, error_maps: bool) -> float:
    """Return the height of a row with its labels, in inches."""
    crop_height = _crop_width(row) * row.box.height / row.box.width
    if error_maps:
        return 2 * crop_height + _GAP + _LABEL
    return crop_height + _LABEL


def _draw_row(figure: Figure, row: CropRow, top: float, top_error: float | None) -> Any:  # noqa: ANN401
    """Draw a row, and return its last error map; None without one.

    Args:
        figure: figure to draw on.
        row: the crops.
        top: upper end of the row in inches from below.
        top_error: error of the brightest colour; None draws no error maps.
    """
    width = _crop_width(row)
    height = width * row.box.height / row.box.width
    frame_width = height * row.whole.shape[1] / row.whole.shape[0]
    frame_axes = _axes(figure, 0.0, top, frame_width, height)
    frame_axes.imshow(row.whole, interpolation="antialiased")
    _mark(frame_axes, row.box)
    below = top - height
    lines = f"{row.sequence}\n{row.frame}"
    _write(figure, lines, frame_width / 2, below, frame_width)
    best = max((cell.psnr for cell in row.cells if cell.psnr is not None), default=None)
    shown = None
    left = frame_width + _GAP
    for cell in row.cells:
        axes = _axes(figure, left, top, width, height)
        _show(axes, cell.picture)
        label_top = below
        if top_error is not None:
            label_top = below - _GAP - height
            if cell.error is not None:
                error_axes = _axes(figure, left, below - _GAP, width, height)
                shown = error_axes.imshow(
                    cell.error, cmap=ERROR_COLORS, vmin=0, vmax=top_error, interpolation="none"
                )
        is_best = best is not None and cell.psnr == best
        _write(figure, _label(cell), left + width / 2, label_top, width, is_bold=is_best)
        left += width + _GAP
    return shown


def _axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes without ticks at a place in inches; arguments as for :func:`axes_at`."""
    axes = axes_at(figure, left, top, width, height)
    axes.set_axis_off()
    return axes


def _show(axes: Axes, picture: NDArray[np.uint8]) -> None:
    """Show a picture with its own pixels, which a PDF keeps."""
    if picture.ndim == 2:
        axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="none", aspect="auto")
    else:
        axes.imshow(picture, interpolation="none", aspect="auto")


def _mark(axes: Axes, box: Box) -> None:
    """Draw the place of the crop."""
    corner = (box.x - 0.5, box.y - 0.5)
    for color, line_width in (("black", 2.0), (MARK, 1.0)):
        axes.add_patch(
            Rectangle(
                corner, box.width, box.height, fill=False, edgecolor=color, linewidth=line_width
            )
        )


def _label(cell: Cell) -> str:
    """Return name and PSNR of a crop in two lines."""
    if cell.psnr is None:
        return cell.label
    if math.isinf(cell.psnr):
        return f"{cell.label}\nidentical"
    return f"{cell.label}\n{cell.psnr:.2f} dB"


def _write(
    figure: Figure, lines: str, x: float, y: float, width: float, *, is_bold: bool = False
) -> None:
    """Write the lines below a picture, each at most as wide as the picture.

    Args:
        figure: figure to write on.
        lines: separated by line breaks.
        x: middle of the picture in inches from the left.
        y: lower end of the picture in inches from below.
        width: width of the picture in inches.
        is_bold: print the last line bold.
    """
    texts = lines.splitlines()
    total_width, total_height = figure.get_size_inches()
    line_height = 1.15 * FONT_SIZE / 72
    for index, line in enumerate(texts):
        top = y - 0.03 - index * line_height
        text = figure.text(x / total_width, top / total_height, line, ha="center", va="top")
        if is_bold and index == len(texts) - 1:
            text.set_fontweight("bold")
        fit_text(text, width)


def _top_error(rows: Sequence[CropRow]) -> float:
    """Return the error of the brightest colour: a multiple of 5 grey levels, rounded up, or 1."""
    errors = [cell.error.ravel() for row in rows for cell in row.cells if cell.error is not None]
    value = float(np.percentile(np.concatenate(errors), _ERROR_SHARE))
    return max(1.0, float(5 * math.ceil(value / 5)))


def _draw_bar(figure: Figure, shown: Any) -> None:  # noqa: ANN401 - an image of matplotlib
    """Draw one colour bar for all error maps."""
    total_width, total_height = figure.get_size_inches()
    left = (total_width - _BAR_WIDTH) / 2
    bounds = (
        left / total_width,
        0.33 / total_height,
        _BAR_WIDTH / total_width,
        0.07 / total_height,
    )
    bar = figure.colorbar(shown, cax=figure.add_axes(bounds), orientation="horizontal")
    bar.set_label("absolute error, grey levels of 255", labelpad=1)
    bar.outline.set_linewidth(0.4)
