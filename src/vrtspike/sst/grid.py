"""Cells on the sphere, and means over them that weigh every part by its area.

A cell lies between two longitudes and two latitudes. Its area is proportional to its width times
the difference of the sines of its edges, so the mean of a field over a coarser cell is exact: each
finer cell counts by the area of its overlap. As overlaps along rows and columns are independent,
two small matrices do it ("conservative remapping" of first order; Jones, 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError
from vrtspike.sst.area import Area

SEA_SHARE = 0.5
"""Share of a cell's area that has to be sea; the mean is that of this part."""
_UNEVEN = 0.01
"""How much of a step the steps of an axis may differ: files hold them as 32-bit numbers."""
_TURN = 360.0


@dataclass(frozen=True)
class Grid:
    """The cells of a region: rows from north to south, columns from west to east.

    Attributes:
        area: the region.
        resolution: degrees of a cell along both sides.
    """

    area: Area
    resolution: float

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.area.shape(self.resolution)

    @property
    def row_edges(self) -> NDArray[np.float64]:
        """(H + 1,) edges of the rows in degrees north, falling."""
        return np.linspace(self.area.lat[1], self.area.lat[0], self.shape[0] + 1)

    @property
    def column_edges(self) -> NDArray[np.float64]:
        """(W + 1,) edges of the columns in degrees east, rising from the western edge."""
        west = self.area.lon[0]
        return np.linspace(west, west + self.area.width, self.shape[1] + 1)

    @property
    def latitudes(self) -> NDArray[np.float64]:
        """(H,) centres of the rows."""
        return _centres(self.row_edges)

    @property
    def longitudes(self) -> NDArray[np.float64]:
        """(W,) centres of the columns; beyond 180 where the region crosses the date line."""
        return _centres(self.column_edges)

    def areas(self) -> NDArray[np.float64]:
        """(H, W) areas of the cells, as shares of the region's."""
        rows = -np.diff(np.sin(np.deg2rad(self.row_edges)))
        columns = np.full(self.shape[1], 1.0)
        return np.outer(rows / rows.sum(), columns / columns.sum())


class Regridder:
    """Means of a field over the cells of a grid.

    Args:
        latitudes: (h,) centres of the field's rows in degrees, evenly rising or falling.
        longitudes: (w,) centres of its columns, evenly rising, in -180 to 180, in 0 to 360 or
            across the seam of either.
        grid: the cells.
        name: of the field's file, for messages.

    Raises:
        DataError: if an axis is out of order, the field is coarser than the grid, or does not
            cover it.
    """

    def __init__(
        self, latitudes: Sequence[float], longitudes: Sequence[float], grid: Grid, name: str
    ) -> None:
        rows = axis_edges(latitudes, "latitude", name)
        columns = axis_edges(longitudes, "longitude", name)
        for axis, edges in (("latitude", rows), ("longitude", columns)):
            step = abs(edges[1] - edges[0])
            if step > grid.resolution * (1 + _UNEVEN):
                raise DataError(
                    f"{name}: the steps of {axis} are {step:g} degrees, coarser than the "
                    f"resolution of {grid.resolution:g}; choose a resolution of {step:g} or more"
                )
        self.grid = grid
        self._rows = _overlaps(np.sin(np.deg2rad(np.clip(rows, -90, 90))), _sines(grid.row_edges))
        self._columns = _overlaps(columns, grid.column_edges, turn=_TURN)
        for axis, shares, wanted in (
            ("latitude", self._rows, grid.area.lat),
            ("longitude", self._columns, grid.column_edges[[0, -1]]),
        ):
            if shares.sum(axis=1).min() < 1 - _UNEVEN:
                edges = rows if axis == "latitude" else columns
                raise DataError(
                    f"{name}: {axis} covers {min(edges):g} to {max(edges):g} degrees, but area "
                    f"{grid.area.name} reaches from {wanted[0]:g} to {wanted[1]:g}; download a "
                    "larger region or make the area smaller"
                )

    def __call__(self, field: NDArray[np.floating]) -> NDArray[np.float64]:
        """Means over the cells.

        Args:
            field: (..., h, w), NaN where there is no sea.

        Returns:
            (..., H, W): the mean over the part of each cell that is sea; NaN where that part is
            smaller than :data:`SEA_SHARE` of the cell.
        """
        sea = np.isfinite(field)
        shares = self._mean(sea.astype(np.float64))
        sums = self._mean(np.where(sea, field, 0.0).astype(np.float64))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(shares >= SEA_SHARE - _WHOLE, sums / shares, np.nan)

    def _mean(self, field: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._rows @ field @ self._columns.T


_WHOLE = 1e-9


def axis_edges(centres: Sequence[float], axis: str, name: str) -> NDArray[np.float64]:
    """Edges of cells whose centres are an axis of a file.

    Args:
        centres: (n,) in degrees; a longitude may jump by a turn.
        axis: ``latitude`` or ``longitude``.
        name: of the file, for messages.

    Returns:
        (n + 1,) edges, rising or falling as the centres do, jumps taken out.

    Raises:
        DataError: if the centres are not evenly spaced in one direction.

    >>> axis_edges([179, 180, -179], "longitude", "a.nc")
    array([178.5, 179.5, 180.5, 181.5])
    """
    values = np.asarray(centres, np.float64)
    if axis == "longitude":
        values = np.unwrap(values, period=_TURN)
    steps = np.diff(values)
    if len(steps) == 0 or not np.isfinite(values).all():
        raise DataError(f"{name}: {axis} has {len(values)} value(s), expected two or more numbers")
    mean = (values[-1] - values[0]) / len(steps)
    uneven = np.abs(steps - mean) > _UNEVEN * abs(mean)
    if mean == 0 or uneven.any() or (axis == "longitude" and mean < 0):
        place = int(uneven.argmax())
        direction = "rising" if axis == "longitude" else "rising or falling"
        raise DataError(
            f"{name}: {axis} is out of order: found {_shown(values[place : place + 3])} from place "
            f"{place}, expected evenly {direction} values; sort the file's axes (for instance "
            f"'ncpdq' or xarray's sortby), or download it again"
        )
    if axis == "longitude" and abs(mean) * len(values) > _TURN * (1 + 1e-6):
        raise DataError(
            f"{name}: longitude goes around more than once ({_shown(values[[0, -1]])}); leave out "
            "the columns that stand twice"
        )
    return values[0] + mean * (np.arange(len(values) + 1) - 0.5)


def _shown(values: NDArray[np.float64]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _centres(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    return (edges[:-1] + edges[1:]) / 2


def _sines(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sin(np.deg2rad(degrees))


def _overlaps(
    source: NDArray[np.float64], target: NDArray[np.float64], turn: float | None = None
) -> NDArray[np.float64]:
    """(cells of target, cells of source): the share of each target cell in each source cell.

    Args:
        source: (n + 1,) edges, rising or falling.
        target: (m + 1,) edges.
        turn: what can be added to an edge without moving it; None: nothing can.
    """
    low, high = np.minimum(source[:-1], source[1:]), np.maximum(source[:-1], source[1:])
    left, right = np.minimum(target[:-1], target[1:]), np.maximum(target[:-1], target[1:])
    found = np.zeros((len(left), len(low)))
    for shift in (0.0,) if turn is None else (-2 * turn, -turn, 0.0, turn, 2 * turn):
        ends = np.minimum(right[:, None], high + shift)
        found += np.maximum(ends - np.maximum(left[:, None], low + shift), 0)
    shares: NDArray[np.float64] = found / (right - left)[:, None]
    return shares
