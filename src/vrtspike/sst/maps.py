"""Pictures of an evaluation: where the error is, and in which months."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from vrtspike.drawing import draw
from vrtspike.sst.area import Area

_LAND = "#a0aec0"
_COLOURS = {"model": "#2b6cb0", "persistence": "#dd6b20", "climatology": "#2f855a"}
_LETTERS = "JFMAMJJASOND"
_HIGHEST = 99.0
"""Percentile of the errors at which the colours end: a few cells must not darken the rest."""
_STEPS = (1, 1.5, 3, 4.5, 6, 9, 10)
"""Degrees between labels, times a power of ten."""
_DPI = 110
_PANEL = 3.6
"""Inches a map is wide."""


def draw_error_maps(
    path: str | Path,
    maps: Mapping[str, NDArray[np.float64]],
    columns: int,
    area: Area,
    title: str,
) -> None:
    """Draw maps of RMSE with one scale of colours for all.

    Args:
        path: the picture.
        maps: by their titles, each (H, W) kelvin, NaN on land; row after row.
        columns: maps in a row.
        area: the region.
        title: above all of them.
    """
    rows = -(-len(maps) // columns)
    values = np.concatenate([field[np.isfinite(field)] for field in maps.values()])
    highest = float(np.percentile(values, _HIGHEST)) or 1.0
    west, (south, north) = area.lon[0], area.lat
    edges = (west, west + area.width, south, north)

    def fill(figure: Figure) -> None:
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for place, (name, field) in zip(axes.flat, maps.items(), strict=False):
            place.set_facecolor(_LAND)
            image = place.imshow(field, extent=edges, vmin=0, vmax=highest, cmap="viridis")
            place.set_title(name, fontsize=9)
            _label_degrees(place)
        figure.colorbar(image, ax=axes, label="RMSE in kelvin", extend="max", shrink=0.8)
        figure.suptitle(title)

    height = _PANEL * min(1.5, max(0.3, area.height / area.width)) + 0.3
    draw(path, fill, (columns * _PANEL + 1, rows * height + 0.8), grid=False, dpi=_DPI)


def draw_forecast(
    path: str | Path, fields: Mapping[str, NDArray[np.float64]], area: Area, title: str
) -> None:
    """Draw anomalies of one month side by side, blue to red, with one scale for all.

    Args:
        path: the picture.
        fields: by their titles, each (H, W) kelvin, NaN on land.
        area: the region.
        title: above all of them.
    """
    values = np.concatenate([np.abs(field[np.isfinite(field)]) for field in fields.values()])
    most = float(np.percentile(values, _HIGHEST)) or 1.0
    west, (south, north) = area.lon[0], area.lat

    def fill(figure: Figure) -> None:
        axes = figure.subplots(1, len(fields), squeeze=False, sharex=True, sharey=True)
        for place, (name, field) in zip(axes.flat, fields.items(), strict=True):
            place.set_facecolor(_LAND)
            image = place.imshow(
                field,
                extent=(west, west + area.width, south, north),
                vmin=-most,
                vmax=most,
                cmap="RdBu_r",
            )
            place.set_title(name, fontsize=9)
            _label_degrees(place)
        figure.colorbar(image, ax=axes, label="anomaly in kelvin", extend="both", shrink=0.8)
        figure.suptitle(title)

    height = _PANEL * min(1.5, max(0.3, area.height / area.width)) + 1.1
    draw(path, fill, (len(fields) * _PANEL + 1, height), grid=False, dpi=_DPI)


def draw_months(path: str | Path, lines: Mapping[str, Sequence[float | None]], title: str) -> None:
    """Draw the RMSE of each month of the year.

    Args:
        path: the picture.
        lines: by method, 12 figures in kelvin, None where there is none.
        title: above it.
    """

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        for name, values in lines.items():
            heights = [np.nan if value is None else value for value in values]
            axes.plot(range(12), heights, marker="o", label=name, color=_COLOURS.get(name))
        axes.set_xticks(range(12), list(_LETTERS))
        axes.set_ylim(bottom=0)
        axes.set_ylabel("RMSE in kelvin")
        axes.grid(axis="y", color="#e2e8f0")
        axes.legend(frameon=False)
        axes.set_title(title)

    draw(path, fill, (7.0, 4.0), grid=False, dpi=_DPI)


def _label_degrees(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: longitude_label(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: latitude_label(value)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=_STEPS))


def longitude_label(degrees: float) -> str:
    """A longitude as maps write it.

    >>> [longitude_label(degrees) for degrees in (-90, 0, 150, 200)]
    ['90°W', '0°', '150°E', '160°W']
    """
    degrees = (degrees + 180) % 360 - 180
    return f"{abs(degrees):g}°{'' if degrees in (0, -180) else 'E' if degrees > 0 else 'W'}"


def latitude_label(degrees: float) -> str:
    """A latitude as maps write it.

    >>> [latitude_label(degrees) for degrees in (-30, 0, 45)]
    ['30°S', '0°', '45°N']
    """
    return f"{abs(degrees):g}°{'' if degrees == 0 else 'N' if degrees > 0 else 'S'}"
