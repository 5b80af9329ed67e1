"""Regions of the globe, their cells, and area-weighted means over cells.

A cell lies between two longitudes and two latitudes. The area of a cell is proportional to its
width times the difference of the sines of its edges, so the mean of a field over a coarser cell is
exact: each finer cell counts by the area of its overlap. Overlaps along rows and columns are
independent, so two small matrices suffice ("conservative remapping" of first order; Jones, 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vrtspike.system.errors import ConfigError, DataError

if TYPE_CHECKING:
    import xarray

CELLS = ("row", "column")

SEA_SHARE = 0.5
"""Share of a cell's area that has to be sea; the mean is that of this part."""
_TURN = 360.0
_WHOLE = 1e-6
"""Relative error of sums of decimals, which are not exact in binary."""
_UNEVEN = 0.01
"""Share of a cell that may be missing or duplicate: files hold axes as 32-bit numbers."""

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Area:
    """A region.

    The region extends eastwards from the first longitude to the second: ``lon=[150, -90]`` is the
    Pacific from 150 E across the date line to 90 W.

    Attributes:
        name: name for titles and names of files.
        lon: western and eastern edge in degrees east, each within -180 to 360.
        lat: southern and northern edge in degrees north.
        description: free text.

    Raises:
        ValueError: if the edges enclose no region.

    >>> Area("Pacific", lon=[150, -90], lat=[-60, 60]).width
    120.0
    """

    name: str
    lon: Sequence[float]
    lat: Sequence[float]
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Check the edges and keep them as pairs of floats."""
        west, east = map(float, self.lon)
        south, north = map(float, self.lat)
        is_in_range = -180 <= min(west, east) < max(west, east) <= 360
        has_longitudes = is_in_range and -_TURN < east - west <= _TURN
        has_latitudes = -90 <= south < north <= 90
        if not (has_longitudes and has_latitudes):
            raise ValueError(
                f"area {self.name}: found lon {self.lon!r}, lat {self.lat!r}, expected two "
                "longitudes from -180 to 360, less than a turn apart, or from west to east a whole "
                "one; and two latitudes from -90 to 90, the southern one first"
            )
        object.__setattr__(self, "lon", (west, east))
        object.__setattr__(self, "lat", (south, north))

    @property
    def width(self) -> float:
        """Degrees of longitude from the western to the eastern edge, above 0 to 360."""
        return (self.lon[1] - self.lon[0]) % _TURN or _TURN

    @property
    def height(self) -> float:
        """Degrees of latitude from the southern to the northern edge."""
        return self.lat[1] - self.lat[0]


class Grid:
    """The cells of a region: rows from north to south, columns from west to east.

    Args:
        area: region that the cells cover.
        resolution: degrees of a cell along both sides.

    Attributes:
        shape: rows and columns.
        edges: edges by axis; (H + 1,) degrees north, falling, and (W + 1,) degrees east, rising
            from the western edge.
        latitudes: (H,) centres of the rows.
        longitudes: (W,) centres of the columns; beyond 180 where the region crosses the date line.

    Raises:
        ConfigError: if the region is not a whole number of cells high and wide.

    >>> Grid(Area("Global", lon=[-180, 180], lat=[-80, 80]), 2).shape
    (80, 180)
    """

    def __init__(self, area: Area, resolution: float) -> None:
        rows = round(area.height / resolution)
        columns = round(area.width / resolution)
        sizes = (area.height / resolution, area.width / resolution)
        if not np.allclose((rows, columns), sizes, rtol=0, atol=_WHOLE):
            raise ConfigError(
                f"area {area.name} is {area.height:g} degrees high and {area.width:g} wide, which "
                f"are no whole numbers of cells of {resolution:g}; move an edge (lon, lat) or "
                "choose another resolution"
            )
        self.area = area
        self.resolution = float(resolution)
        self.shape = (rows, columns)
        self.edges = {
            "latitude": np.linspace(area.lat[1], area.lat[0], rows + 1),
            "longitude": np.linspace(area.lon[0], area.lon[0] + area.width, columns + 1),
        }
        self.latitudes = _centers(self.edges["latitude"])
        self.longitudes = _centers(self.edges["longitude"])

    def shares(self, box: Area) -> _Array:
        """Return shares (H, W) of a box's area in each cell; their sum is 1 if all is covered."""
        meridians = (box.lon[0], box.lon[0] + box.width)
        rows = _overlaps("latitude", self.latitudes, self.resolution, box.lat)
        columns = _overlaps("longitude", self.longitudes, self.resolution, meridians)
        return np.outer(rows, columns)

    def means(self, field: xarray.DataArray, name: str) -> xarray.DataArray:
        """Return the means of a field over the cells, lazy if the field is lazy.

        Args:
            field: (time, latitude, longitude), NaN where there is no sea. The axes hold evenly
                spaced centres in degrees, in any order; longitudes in -180 to 180 or in 0 to 360.
            name: name of the field's file, for messages.

        Returns:
            (time, row, column): the mean over the part of each cell that is sea; NaN where that
            part is smaller than :data:`SEA_SHARE` of the cell.

        Raises:
            DataError: if an axis is uneven, coarser than the grid, or does not cover it.
        """
        import xarray

        rows = self._overlaps(field, "latitude", name)
        columns = self._overlaps(field, "longitude", name).T

        def over_cells(values: xarray.DataArray) -> xarray.DataArray:
            cells = rows @ values.astype(float).data @ columns
            return xarray.DataArray(cells, {"time": field["time"].values}, ("time", *CELLS))

        shares = over_cells(field.notnull())
        return over_cells(field.fillna(0)) / shares.where(shares >= SEA_SHARE - _WHOLE)

    def _overlaps(self, field: xarray.DataArray, axis: str, name: str) -> _Array:
        """Return the shares of each row or column of the grid in each one of a field.

        Raises:
            DataError: if the axis is uneven, coarser than the grid, or does not cover it.
        """
        centers = field[axis].values.astype(np.float64)
        step = float(np.median(np.diff(np.sort(centers)))) if centers.size > 1 else np.nan
        overlaps = _overlaps(axis, centers, step, self.edges[axis])
        uneven = np.abs(overlaps.sum(axis=1) - 1).max()
        is_fine = 0 < step <= self.resolution * (1 + _UNEVEN)
        if not (is_fine and uneven <= _UNEVEN):
            raise DataError(
                f"{name}: the steps of {axis} are {step:g} degrees from {centers.min():g} to "
                f"{centers.max():g}, expected steps up to the resolution of "
                f"{self.resolution:g} that cover area {self.area.name} once and evenly; "
                "download the whole region, or choose another area or resolution"
            )
        return overlaps


def _centers(edges: _Array) -> _Array:
    return (edges[:-1] + edges[1:]) / 2


def _overlaps(axis: str, centers: _Array, step: float, edges: ArrayLike) -> _Array:
    """Return the share of each target cell in each source cell: (target cells, source cells).

    Args:
        axis: ``latitude``, along which areas are differences of sines, or ``longitude``, where a
            turn moves no edge.
        centers: (n,) centres of the source cells in degrees.
        step: degrees of a source cell.
        edges: (m + 1,) edges of the target cells in degrees, rising or falling.
    """
    low = centers - step / 2
    high = centers + step / 2
    ends = np.asarray(edges, np.float64)
    if axis == "latitude":
        low = _sine(low)
        high = _sine(high)
        ends = _sine(ends)
    left = np.minimum(ends[:-1], ends[1:])[:, None]
    right = np.maximum(ends[:-1], ends[1:])[:, None]
    # Longitudes that differ by a full turn are equal; sines of latitudes are too small to be
    # affected.
    length = np.zeros((len(left), len(centers)))
    for turn in _TURN * np.arange(-2, 3):
        part = np.minimum(right, high + turn) - np.maximum(left, low + turn)
        length += part.clip(0)
    return length / (right - left)


def _sine(latitudes: _Array) -> _Array:
    """Return the sines of latitudes in degrees, of which those beyond a pole count as the pole."""
    return np.sin(np.deg2rad(latitudes.clip(-90, 90)))
