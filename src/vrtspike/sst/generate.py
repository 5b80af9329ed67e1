"""A globe whose best possible forecast is known, in the layout of ERA5's files.

The temperature of the globe is the sum of a seasonal cycle, a trend, an oscillation of El Niño's
kind and weather, frozen where it would be colder than the sea can be:

- the oscillation is a complex number that turns once in :data:`PERIOD` months while chance pushes
  it; its real part is the temperature of one pattern (the central Pacific and its teleconnections),
  its imaginary part that of another, which comes first. Linear inverse models describe El Niño by
  such a damped, randomly forced oscillator (Penland and Sardeshmukh, 1995);
- the weather of each place is red noise: :data:`ANOMALY_MEMORY` of a month's value is left in the
next.

The expectation of any later month is therefore a formula (:meth:`Globe.best_forecast`), and no
forecast can be better on average. If one seems to be, its evaluation has an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import norm

from vrtspike.io.files import atomic_path
from vrtspike.sst.downloads import ICE, SST
from vrtspike.sst.months import MONTHS, month_number

PERIOD = 28.0
"""Period of the oscillation in months."""
DECAY = 30.0
"""Months after which 1/e of the oscillation's amplitude is left."""
_TURN = complex(np.exp(-1 / DECAY + 2j * np.pi / PERIOD))
"""Factor of the oscillation from month to month, before noise is added."""
EL_NINO_K = 0.9
"""Standard deviation of the oscillation in kelvin, where it is strongest."""
ANOMALY_MEMORY = 0.7
WEATHER_K = 0.2
"""Standard deviation of the weather in kelvin."""
TREND_K = 0.02
"""Warming in kelvin a year at the equator, half of it at 60 degrees."""
FREEZING_K = 271.35
_SPIN_UP = 240

_Array = NDArray[np.float64]


@dataclass
class Globe:
    """Sizes and parameters of the generated data.

    Attributes:
        first_year: first year of the data; they begin in January.
        years: number of years.
        step: degrees between neighbouring points.
        south: latitude of the southernmost points, that of the northernmost with the other sign.
        seed: seed of oscillation and weather.
        anomalies: if false, there are only seasons and unpredictable weather.
        months: (N,) numbers of the months.
        latitudes: (h,) degrees north, falling, as in ERA5's files.
        longitudes: (w,) degrees east, from 0.
    """

    first_year: int = 1980
    years: int = 40
    step: float = 4.0
    south: float = -60.0
    seed: int = 0
    anomalies: bool = True

    def __post_init__(self) -> None:
        """Draw oscillation and weather."""
        self.months = month_number(self.first_year, 1) + np.arange(MONTHS * self.years)
        self.latitudes = np.arange(-self.south, self.south - self.step / 2, -self.step)
        self.longitudes = np.arange(0, 360, self.step)
        self._memory = ANOMALY_MEMORY if self.anomalies else 0.0
        count = _SPIN_UP + len(self.months)
        pushes = np.random.default_rng([self.seed, 0]).normal(size=(count, 2)) @ np.array([1, 1j])
        # Each part of the oscillation has a variance of 1.
        self._oscillation = _autoregression(pushes * np.sqrt(1 - abs(_TURN) ** 2), _TURN)
        shape = (count, len(self.latitudes), len(self.longitudes))
        noise = np.random.default_rng([self.seed, 1]).normal(size=shape)
        # The noise is smoothed in space, because the weather of neighbouring points is alike.
        noise = noise + np.roll(noise, 1, axis=2)
        noise = WEATHER_K * (noise + np.roll(noise, 1, axis=1)) / 2
        self._weather = _autoregression(np.sqrt(1 - self._memory**2) * noise, self._memory)

    def land(self) -> NDArray[np.bool_]:
        """Return the points (h, w) on land: one round continent, and a cape in the south."""
        lat = self.latitudes[:, None]
        lon = self.longitudes
        continent = ((lon - 275) / 20) ** 2 + ((lat - 15) / 26) ** 2 < 1
        return np.asarray(continent | ((np.abs(lon - 140) < 12) & (lat < -25)))

    def expectation(self, lead: int = 0) -> _Array:
        """Return kelvin (N, h, w) of unfrozen sea as expected ``lead`` months later.

        With 0 it is the temperature itself.
        """
        months = self.months + lead
        lat = np.deg2rad(self.latitudes)[:, None]
        season = np.cos(2 * np.pi * (months % MONTHS - 8) / MONTHS)[:, None, None]
        field = 301.15 - 36 * np.sin(lat) ** 2 + 5 * np.sin(lat) * season
        field = field + self._memory**lead * self._weather
        if self.anomalies:
            years = (months - self.months[0])[:, None, None] / MONTHS
            swing = (_TURN**lead * self._oscillation)[:, None, None]
            first, second = self._patterns()
            field += TREND_K * np.cos(lat) * years
            field += EL_NINO_K * (first * swing.real + second * swing.imag)
        return field

    def best_forecast(self, lead: int) -> _Array:
        """Return expected kelvin (N, h, w) of the sea ``lead`` months later, given all until now.

        The unfrozen temperature is normal about :meth:`expectation`; freezing cuts it off below.

        Args:
            lead: months, from 1.
        """
        expected = self.expectation(lead)
        deviation = np.sqrt(self.error_variance(lead))
        above = (expected - FREEZING_K) / deviation
        return np.asarray(FREEZING_K + deviation * (above * norm.cdf(above) + norm.pdf(above)))

    def error_variance(self, lead: int) -> _Array:
        """Return the variance (h, w) of the unfrozen temperature in kelvin squared.

        Args:
            lead: months between start and target.
        """
        weather = WEATHER_K**2 * (1 - self._memory ** (2 * lead))
        shape = (len(self.latitudes), len(self.longitudes))
        if not self.anomalies:
            return np.full(shape, weather)
        first, second = self._patterns()
        swing = EL_NINO_K**2 * (1 - abs(_TURN) ** (2 * lead))
        return weather + swing * (first**2 + second**2)

    def _patterns(self) -> tuple[_Array, _Array]:
        """Return patterns (h, w) of the oscillation's real and imaginary part."""
        lat = np.deg2rad(self.latitudes)[:, None]
        first = self._pattern(lat, center=215, phase=0.0)
        second = self._pattern(lat, center=160, phase=1.5)
        return first, second

    def _pattern(self, lat: _Array, center: float, phase: float) -> _Array:
        """Return a pattern (h, w) of the oscillation: a core at the equator, and waves far from it.

        Args:
            lat: (h, 1) latitudes in radians.
            center: longitude of the core in degrees.
            phase: phase of the waves.
        """
        core = np.exp(-((np.rad2deg(lat) / 14) ** 2) - ((self.longitudes - center) / 45) ** 2)
        waves = 0.8 * np.sin(2 * lat) * np.cos(2 * np.deg2rad(self.longitudes) + phase)
        return np.asarray(core + waves)

    def kelvin(self) -> NDArray[np.float32]:
        """Return sea surface temperatures (N, h, w), NaN on land."""
        field = np.maximum(self.expectation(), FREEZING_K)
        return np.where(self.land(), np.nan, field).astype(np.float32)

    def ice(self) -> NDArray[np.float32]:
        """Return the share of the sea that is ice, (N, h, w), larger if colder; NaN on land."""
        cold = FREEZING_K - self.expectation()
        share = np.where(cold > 0, np.clip(0.15 + cold / 2, 0, 1), 0)
        return np.where(self.land(), np.nan, share).astype(np.float32)


def _autoregression(shocks: NDArray[Any], memory: complex) -> NDArray[Any]:
    """Return an autoregression of first order over the first axis, without its first months."""
    return np.asarray(lfilter([1], [1, -memory], shocks, axis=0))[_SPIN_UP:]


def write_example(folder: str | Path, globe: Globe | None = None) -> Path:
    """Write a globe as a user would download it: ``sst.nc``, with temperature and sea ice.

    Args:
        folder: folder for the file; created if it is missing.
        globe: the globe; None: the default one, of 40 years.

    Returns:
        The file.
    """
    globe = globe or Globe()
    stamps = (globe.months - month_number(1970, 1)).astype("datetime64[M]").astype("datetime64[ns]")
    dims = ("valid_time", "latitude", "longitude")
    fields = {
        SST: (dims, globe.kelvin(), {"units": "K"}),
        ICE: (dims, globe.ice(), {"units": "(0 - 1)"}),
    }
    axes = dict(zip(dims, (stamps, globe.latitudes, globe.longitudes), strict=True))
    versions = {"expver": ("valid_time", ["0001"] * len(stamps))}
    encoding = {"valid_time": {"units": "seconds since 1970-01-01", "dtype": "int64"}}
    path = Path(folder) / "sst.nc"
    with atomic_path(path) as temporary:
        dataset = xarray.Dataset(fields, axes | versions)
        dataset.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)
    return path
