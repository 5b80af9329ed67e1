"""Regions of the globe, their cells, and means over cells that weigh every part by its area.

A cell lies between two longitudes and two latitudes. Its area is proportional to its width times
the difference of the sines of its edges, so the mean of a field over a coarser cell is exact: each
finer cell counts by the area of its overlap. As overlaps along rows and columns are independent,
two small matrices do it ("conservative remapping" of first order; Jones, 1999).
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
        (west, east), (south, north) = (map(float, edges) for edges in (self.lon, self.lat))
        within = -180 <= min(west, east) < max(west, east) <= 360
        if not (within and -_TURN < east - west <= _TURN and -90 <= south < north <= 90):
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
        area: the region.
        resolution: degrees of a cell along both sides.

    Attributes:
        shape: rows and columns.
        edges: by axis; (H + 1,) degrees north, falling, and (W + 1,) degrees east, rising from the
            western edge.
        latitudes: (H,) centres of the rows.
        longitudes: (W,) centres of the columns; beyond 180 where the region crosses the date line.

    Raises:
        ConfigError: if the region is no whole number of cells high and wide.

    >>> Grid(Area("Global", lon=[-180, 180], lat=[-80, 80]), 2).shape
    (80, 180)
    """

    def __init__(self, area: Area, resolution: float) -> None:
        sides = area.height, area.width
        rows, columns = (round(degrees / resolution) for degrees in sides)
        if not np.allclose((rows, columns), np.divide(sides, resolution), rtol=0, atol=_WHOLE):
            raise ConfigError(
                f"area {area.name} is {sides[0]:g} degrees high and {sides[1]:g} wide, which "
                f"are no whole numbers of cells of {resolution:g}; move an edge (lon, lat) or "
                "choose another resolution"
            )
        self.area, self.resolution, self.shape = area, float(resolution), (rows, columns)
        self.edges = {
            "latitude": np.linspace(area.lat[1], area.lat[0], rows + 1),
            "longitude": np.linspace(area.lon[0], area.lon[0] + area.width, columns + 1),
        }
        self.latitudes, self.longitudes = ((e[:-1] + e[1:]) / 2 for e in self.edges.values())

    def shares(self, box: Area) -> _Array:
        """(H, W) which share of a box's area lies in each cell; 1 in all if the grid covers it."""
        west = box.lon[0]
        rows = _overlaps("latitude", self.latitudes, self.resolution, box.lat)
        edges = west, west + box.width
        columns = _overlaps("longitude", self.longitudes, self.resolution, edges)
        return np.outer(rows, columns)

    def means(self, field: xarray.DataArray, name: str) -> xarray.DataArray:
        """Means of a field over the cells, computed when they are read if the field is lazy.

        Args:
            field: (time, latitude, longitude), NaN where there is no sea. Its axes hold evenly
                spaced centres in degrees, in any order; longitudes in -180 to 180 or in 0 to 360.
            name: of the field's file, for messages.

        Returns:
            (time, row, column): the mean over the part of each cell that is sea; NaN where that
            part is smaller than :data:`SEA_SHARE` of the cell.

        Raises:
            DataError: if an axis is uneven, coarser than the grid, or does not cover it.
        """
        import xarray

        overlaps = {}
        for axis, edges in self.edges.items():
            centres = field[axis].values.astype(np.float64)
            step = float(np.median(np.diff(np.sort(centres)))) if centres.size > 1 else np.nan
            overlaps[axis] = _overlaps(axis, centres, step, edges)
            uneven = np.abs(overlaps[axis].sum(axis=1) - 1).max()
            if not (0 < step <= self.resolution * (1 + _UNEVEN) and uneven <= _UNEVEN):
                raise DataError(
                    f"{name}: the steps of {axis} are {step:g} degrees from {centres.min():g} to "
                    f"{centres.max():g}, expected steps up to the resolution of "
                    f"{self.resolution:g} that cover area {self.area.name} once and evenly; "
                    "download the whole region, or choose another area or resolution"
                )
        rows, columns = overlaps["latitude"], overlaps["longitude"].T
        times = {"time": field["time"].values}
        shares, sums = (
            xarray.DataArray(rows @ part.data @ columns, times, ("time", *CELLS))
            for part in (field.notnull().astype(float), field.fillna(0).astype(float))
        )
        return sums / shares.where(shares >= SEA_SHARE - _WHOLE)


def _overlaps(axis: str, centres: _Array, step: float, edges: ArrayLike) -> _Array:
    """(target cells, source cells): the share of each target cell in each source cell.

    Args:
        axis: ``latitude``, along which areas are differences of sines, or ``longitude``, where a
            turn moves no edge.
        centres: (n,) of the source cells in degrees.
        step: degrees of a source cell.
        edges: (m + 1,) of the target cells in degrees, rising or falling.
    """
    low, high, ends = centres - step / 2, centres + step / 2, np.asarray(edges, np.float64)
    if axis == "latitude":
        low, high, ends = (np.sin(np.deg2rad(each.clip(-90, 90))) for each in (low, high, ends))
    left, right = (choose(ends[:-1], ends[1:])[:, None] for choose in (np.minimum, np.maximum))
    # A turn more or less is the same longitude; sines of latitudes are too small to meet it.
    turns = _TURN * np.arange(-2, 3)
    parts = (np.minimum(right, high + turn) - np.maximum(left, low + turn) for turn in turns)
    return np.asarray(sum(part.clip(0) for part in parts) / (right - left))
