"""A region of the globe, between two longitudes and two latitudes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vrtspike.errors import ConfigError

_TURN = 360.0
_WHOLE = 1e-6
"""A number of cells may be off a whole one by this much: decimals are not exact in binary."""


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
        if not self.name:
            raise ConfigError("AREA: found an empty name, expected one, such as 'Global'")
        object.__setattr__(self, "lon", self._pair("lon", self.lon))
        object.__setattr__(self, "lat", self._pair("lat", self.lat))
        west, east = self.lon
        if not -180 <= west <= 360 or not -180 <= east <= 360:
            raise ConfigError(
                f"area {self.name}: found lon {[west, east]}, expected degrees from -180 to 360"
            )
        if west == east or east - west > _TURN:
            raise ConfigError(
                f"area {self.name}: found lon {[west, east]}, expected two different longitudes at "
                "most a turn apart; [-180, 180] is the whole globe"
            )
        south, north = self.lat
        if not -90 <= south < north <= 90:
            raise ConfigError(
                f"area {self.name}: found lat {[south, north]}, expected degrees north from -90 to "
                "90, the southern edge first"
            )

    @property
    def width(self) -> float:
        """Degrees of longitude from the western to the eastern edge, above 0 to 360."""
        degrees = self.lon[1] - self.lon[0]
        return degrees if degrees > 0 else degrees + _TURN

    @property
    def height(self) -> float:
        """Degrees of latitude from the southern to the northern edge."""
        return self.lat[1] - self.lat[0]

    @property
    def is_round(self) -> bool:
        """Whether the region goes all around the globe, so that its edges touch."""
        return self.width == _TURN

    @property
    def slug(self) -> str:
        """The name as part of a file's name.

        >>> Area("North Sea / Skagerrak", lon=[-4, 12], lat=[51, 62]).slug
        'north-sea-skagerrak'
        """
        return re.sub(r"[^\w.]+", "-", self.name.lower()).strip("-.") or "area"

    def shape(self, resolution: float) -> tuple[int, int]:
        """Rows and columns of cells of this resolution.

        Raises:
            ConfigError: if the region is no whole number of them high and wide.

        >>> Area("Global", lon=[-180, 180], lat=[-80, 80]).shape(2)
        (80, 180)
        """
        if not resolution > 0:
            raise ConfigError(f"resolution: found {resolution!r}, expected degrees above 0")
        counts = []
        for side, degrees in (("high", self.height), ("wide", self.width)):
            count = round(degrees / resolution)
            if count < 1 or abs(count * resolution - degrees) > _WHOLE * resolution:
                raise ConfigError(
                    f"area {self.name} is {degrees:g} degrees {side}, which is no whole number of "
                    f"cells of {resolution:g}; move an edge (lon, lat) or choose another resolution"
                )
            counts.append(count)
        return counts[0], counts[1]

    def as_json(self) -> dict[str, Any]:
        """The region as JSON values.

        >>> Area.from_json(Area("A", lon=[0, 8], lat=[-4, 4]).as_json()).width
        8.0
        """
        return {
            "name": self.name,
            "lon": list(self.lon),
            "lat": list(self.lat),
            "description": self.description,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Area:
        """The inverse of :meth:`as_json`."""
        return cls(values["name"], values["lon"], values["lat"], values.get("description", ""))

    def _pair(self, name: str, values: Sequence[float]) -> tuple[float, float]:
        try:
            first, second = (float(value) for value in values)
        except (TypeError, ValueError):
            raise ConfigError(
                f"area {self.name}: {name} is {values!r}, expected two numbers, such as [-80, 80]"
            ) from None
        return first, second
