"""Regions of the globe, their cells, and means over cells that weigh every part by its area.

A cell lies between two longitudes and two latitudes. Its area is proportional to its width times
the difference of the sines of its edges, so the mean of a field over a coarser cell is exact: each
finer cell counts by the area of its overlap. As overlaps along rows and columns are independent,
two small matrices do it ("conservative remapping" of first order; Jones, 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vrtspike.errors import ConfigError, DataError

SEA_SHARE = 0.5
"""Share of a cell's area that has to be sea; the mean is that of this part."""
_TURN = 360.0
_WHOLE = 1e-6
"""Relative error of sums of decimals, which are not exact in binary."""
_UNEVEN = 0.01
"""Share of a cell that may be missing or stand twice: files hold axes as 32-bit numbers."""

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Area:
    """A region.

    Where the second longitude is not east of the first, the region crosses the meridian between
    them: ``lon=[150, -90]`` is the Pacific from 150 E across the date line to 90 W.

    Attributes:
        name: of the region, for titles and names of files.
        lon: western and eastern edge in degrees east, each within -180 to 360.
        lat: southern and northern edge in degrees north.
        description: words for people.

    Raises:
        ConfigError: if the edges enclose no region.

    >>> Area("Pacific", lon=[150, -90], lat=[-60, 60]).width
    120.0
    """

    name: str
    lon: Sequence[float]
    lat: Sequence[float]
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Check the edges and keep them as pairs of floats."""
        found = f"area {self.name}: found lon {self.lon!r}, lat {self.lat!r}"
        try:
            (west, east), (south, north) = (map(float, pair) for pair in (self.lon, self.lat))
        except (TypeError, ValueError):
            raise ConfigError(f"{found}, expected two numbers each, such as [-80, 80]") from None
        if west == east or min(west, east) < -180 or max(west, east) > 360:
            raise ConfigError(f"{found}, expected two longitudes from -180 to 360 that differ")
        if not -_TURN < east - west <= _TURN:
            raise ConfigError(f"{found}, expected longitudes at most a turn apart")
        if not -90 <= south < north <= 90:
            raise ConfigError(f"{found}, expected latitudes from -90 to 90, the southern one first")
        object.__setattr__(self, "lon", (west, east))
        object.__setattr__(self, "lat", (south, north))

    @property
    def width(self) -> float:
        """Degrees of longitude from the western to the eastern edge, above 0 to 360."""
        degrees = self.lon[1] - self.lon[0]
        return degrees if degrees > 0 else degrees + _TURN

    @property
    def height(self) -> float:
        """Degrees of latitude from the southern to the northern edge."""
        return self.lat[1] - self.lat[0]


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
        """Rows and columns.

        Raises:
            ConfigError: if the region is no whole number of cells high and wide.

        >>> Grid(Area("Global", lon=[-180, 180], lat=[-80, 80]), 2).shape
        (80, 180)
        """
        if not self.resolution > 0:
            raise ConfigError(f"resolution: found {self.resolution!r}, expected degrees above 0")
        sides = self.area.height, self.area.width
        rows, columns = (round(degrees / self.resolution) for degrees in sides)
        if not np.allclose((rows, columns), np.divide(sides, self.resolution), rtol=0, atol=_WHOLE):
            raise ConfigError(
                f"area {self.area.name} is {sides[0]:g} degrees high and {sides[1]:g} wide, which "
                f"are no whole numbers of cells of {self.resolution:g}; move an edge (lon, lat) or "
                "choose another resolution"
            )
        return rows, columns

    @property
    def row_edges(self) -> _Array:
        """(H + 1,) edges of the rows in degrees north, falling."""
        return np.linspace(self.area.lat[1], self.area.lat[0], self.shape[0] + 1)

    @property
    def column_edges(self) -> _Array:
        """(W + 1,) edges of the columns in degrees east, rising from the western edge."""
        west = self.area.lon[0]
        return np.linspace(west, west + self.area.width, self.shape[1] + 1)

    @property
    def latitudes(self) -> _Array:
        """(H,) centres of the rows."""
        return (self.row_edges[:-1] + self.row_edges[1:]) / 2

    @property
    def longitudes(self) -> _Array:
        """(W,) centres of the columns; beyond 180 where the region crosses the date line."""
        return (self.column_edges[:-1] + self.column_edges[1:]) / 2

    def shares(self, box: Area) -> _Array:
        """(H, W) which share of a box's area lies in each cell; 1 in all if the grid covers it."""
        west, edges = box.lon[0], self.row_edges
        rows = _overlaps(_sines(edges[1:]), _sines(edges[:-1]), _sines(np.array(box.lat)))
        columns = _overlaps(
            self.column_edges[:-1],
            self.column_edges[1:],
            np.array([west, west + box.width]),
            turn=_TURN,
        )
        return np.outer(rows, columns)


class Regridder:
    """Means of a field over the cells of a grid.

    Args:
        latitudes: (h,) evenly spaced centres of the field's rows in degrees, in any order.
        longitudes: (w,) centres of its columns likewise, in -180 to 180 or in 0 to 360.
        grid: the cells.
        name: of the field's file, for messages.

    Raises:
        DataError: if an axis is uneven, coarser than the grid, or does not cover it.
    """

    def __init__(self, latitudes: ArrayLike, longitudes: ArrayLike, grid: Grid, name: str) -> None:
        self.grid = grid
        shares = []
        for axis, values, edges in (
            ("latitude", latitudes, grid.row_edges[::-1]),
            ("longitude", longitudes, grid.column_edges),
        ):
            centres = np.asarray(values, np.float64)
            step = float(np.median(np.diff(np.sort(centres)))) if centres.size > 1 else np.nan
            found = f"{name}: the steps of {axis} are {step:g} degrees"
            if not 0 < step <= grid.resolution * (1 + _UNEVEN):
                raise DataError(
                    f"{found}, expected some above 0 and up to the resolution of "
                    f"{grid.resolution:g}; choose another resolution, or download the file again"
                )
            low, high = centres - step / 2, centres + step / 2
            if axis == "latitude":
                low, high, edges = (_sines(each.clip(-90, 90)) for each in (low, high, edges))
            overlaps = _overlaps(low, high, edges, turn=_TURN if axis == "longitude" else 0.0)
            if np.abs(overlaps.sum(axis=1) - 1).max() > _UNEVEN:
                raise DataError(
                    f"{found} from {centres.min():g} to {centres.max():g}, which do not cover area "
                    f"{grid.area.name} once and evenly; download the whole region, or make the "
                    "area smaller"
                )
            shares.append(overlaps)
        self._rows, self._columns = shares[0][::-1], shares[1]

    def __call__(self, field: NDArray[np.floating]) -> _Array:
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

    def _mean(self, field: _Array) -> _Array:
        return self._rows @ field @ self._columns.T


def _sines(degrees: _Array) -> _Array:
    return np.sin(np.deg2rad(degrees))


def _overlaps(low: _Array, high: _Array, edges: _Array, turn: float = 0.0) -> _Array:
    """(target cells, source cells): the share of each target cell in each source cell.

    Args:
        low: (n,) lower edges of the source cells.
        high: (n,) upper edges of the source cells.
        edges: (m + 1,) edges of the target cells, rising.
        turn: what can be added to an edge without moving it; 0: nothing can.
    """
    left, right = edges[:-1, None], edges[1:, None]
    shifts = turn * np.arange(-2, 3) if turn else np.zeros(1)
    parts = (np.minimum(right, high + s) - np.maximum(left, low + s) for s in shifts)
    shares: _Array = sum(part.clip(0) for part in parts) / (right - left)
    return shares
