"""Small files in the layout of ERA5's monthly means, so that demo and tests need no download.

The sea of this globe has a seasonal cycle, two anomalies that travel (one west, one east), one that
swings in the tropics as El Niño does, and weather that nobody can forecast. Without the anomalies
nothing is left to forecast: no model can do better than the climatology, and one that seems to
makes a mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from vrtspike.files import atomic_path
from vrtspike.sst.months import MONTHS, month_number

if TYPE_CHECKING:
    import xarray

TRAVELLING_K = 0.8
"""Amplitude of each travelling anomaly in kelvin."""
PERIODS = (14.3, 9.7)
"""Their periods in months: no part of a year, or a climatology would know them."""
WAVE_NUMBERS = (5, 4)
"""How often each repeats around the globe; the first goes west, the second east."""
EL_NINO_K = 0.9
"""Standard deviation of the swinging anomaly in kelvin, where it is strongest."""
_EL_NINO_PERIOD = 44.0
_EL_NINO_MEMORY = 30.0
"""Months after which a third of a swing is left."""
WEATHER_K = 0.25
"""Standard deviation in kelvin of what cannot be forecast: drawn anew every month."""
_SMOOTH = 2
"""Cells over which the weather is alike."""


@dataclass(frozen=True)
class Globe:
    """What is generated.

    Attributes:
        first_year: of the data; they begin in January.
        years: how many.
        step: degrees between neighbouring points.
        south: latitude of the southernmost points, that of the northernmost with the other sign.
        seed: of phases, El Niño and weather.
        anomalies: False leaves out all that can be forecast beyond the seasons.
    """

    first_year: int = 1980
    years: int = 40
    step: float = 4.0
    south: float = -60.0
    seed: int = 0
    anomalies: bool = True

    @property
    def latitudes(self) -> NDArray[np.float64]:
        """Degrees north, falling, as in ERA5's files."""
        return np.arange(-self.south, self.south - self.step / 2, -self.step)

    @property
    def longitudes(self) -> NDArray[np.float64]:
        """Degrees east, from 0."""
        return np.arange(0, 360, self.step)

    @property
    def months(self) -> range:
        """Numbers of the months."""
        first = month_number(self.first_year, 1)
        return range(first, first + MONTHS * self.years)

    def land(self) -> NDArray[np.bool_]:
        """(h, w) points on land: one round continent, and a cape in the south."""
        lat, lon = np.meshgrid(self.latitudes, self.longitudes, indexing="ij")
        continent = ((lon - 250) / 22) ** 2 + ((lat - 15) / 26) ** 2 < 1
        cape = (np.abs(lon - 150) < 12) & (lat < -25)
        found: NDArray[np.bool_] = continent | cape
        return found

    def kelvin(self) -> NDArray[np.float32]:
        """(N, h, w) sea surface temperatures, NaN on land."""
        random = np.random.default_rng(self.seed)
        months = np.array(self.months)
        field = _seasons(months, self.latitudes)[:, :, None]
        # Drawn in any case, so that the weather is the same with and without anomalies.
        anomalies = _anomalies(random, months, self.latitudes, self.longitudes)
        field = field + (anomalies if self.anomalies else 0)
        field = field + _weather(random, len(months), len(self.latitudes), len(self.longitudes))
        return np.where(self.land(), np.nan, field).astype(np.float32)


Variant = Literal["preliminary", "older", "packed", "expver dimension", "netcdf3"]
"""What else downloads look like: ``preliminary``: the last two months are ERA5T, as ``expver``
beside the time tells; ``older``: hours since 1900 as ``time``, 32-bit axes. Those that follow are
``older``, too: ``packed`` into 16 bits; ``expver dimension``: preliminary months stand in a version
of their own; ``netcdf3``: packed, in that format."""
_PRELIMINARY_MONTHS = 2


def write_example(
    folder: str | Path,
    globe: Globe = Globe(),
    *,
    per_year: bool = False,
    from_minus_180: bool = False,
    variants: Sequence[Variant] = (),
) -> list[Path]:
    """Write a globe as a user would download it.

    Args:
        folder: for the files; made where it is missing.
        globe: what is generated.
        per_year: a file for each year, ``sst_<year>.nc``, instead of one ``sst.nc``.
        from_minus_180: longitudes from -180 instead of from 0.
        variants: see :data:`Variant`.

    Returns:
        The files.
    """
    kelvin, months = globe.kelvin(), np.array(globe.months)
    size = MONTHS if per_year else len(months)
    paths = []
    for start in range(0, len(months), size):
        places = slice(start, start + size)
        name = f"sst_{months[start] // MONTHS}.nc" if per_year else "sst.nc"
        path = Path(folder) / name
        dataset = _dataset(globe, months[places], kelvin[places], from_minus_180, variants)
        _write(path, dataset, variants)
        paths.append(path)
    return paths


def _seasons(months: NDArray[np.int_], latitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, h) kelvin: warm at the equator, warmest in March in the south, September in the north."""
    mean = 273.15 + 28 * np.cos(np.deg2rad(latitudes)) ** 2
    swing = 5 * np.sin(np.deg2rad(latitudes))
    phase = 2 * np.pi * (months % MONTHS - 8) / MONTHS
    return mean[None] + swing[None] * np.cos(phase)[:, None]


def _anomalies(
    random: np.random.Generator,
    months: NDArray[np.int_],
    latitudes: NDArray[np.float64],
    longitudes: NDArray[np.float64],
) -> NDArray[np.float64]:
    """(N, h, w) kelvin."""
    time = (months - months[0])[:, None, None]
    lat = latitudes[None, :, None]
    lon = np.deg2rad(longitudes)[None, None, :]
    phases = random.uniform(0, 2 * np.pi, 2)
    envelope = np.cos(np.deg2rad(lat)) ** 2
    found = np.zeros((len(months), len(latitudes), len(longitudes)))
    for number, period, phase, way in zip(WAVE_NUMBERS, PERIODS, phases, (1, -1), strict=True):
        angle = number * lon + way * 2 * np.pi * time / period + phase
        found += TRAVELLING_K * envelope * np.cos(angle)
    away = (np.rad2deg(lon) - 220 + 180) % 360 - 180
    pattern = np.exp(-((lat / 15) ** 2) - (away / 45) ** 2)
    return found + pattern * _el_nino(random, len(months))[:, None, None]


def _el_nino(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """(N,) a swing that chance keeps going: an autoregressive process of second order."""
    memory, angle = np.exp(-1 / _EL_NINO_MEMORY), 2 * np.pi / _EL_NINO_PERIOD
    spin_up = int(10 * _EL_NINO_MEMORY)
    values = [0.0, 0.0]
    for push in random.normal(size=spin_up + count):
        values.append(2 * memory * np.cos(angle) * values[-1] - memory**2 * values[-2] + push)
    swing = np.array(values[-count:])
    return EL_NINO_K * swing / swing.std()


def _weather(random: np.random.Generator, count: int, rows: int, columns: int) -> Any:  # noqa: ANN401
    """(N, h, w) kelvin, each month on its own; neighbouring points are alike."""
    noise = random.normal(size=(count, rows, columns))
    smooth = sum(np.roll(noise, (i, j), (1, 2)) for i in range(_SMOOTH) for j in range(_SMOOTH))
    return WEATHER_K / _SMOOTH * smooth


def _dataset(
    globe: Globe,
    months: NDArray[np.int_],
    kelvin: NDArray[np.float32],
    from_minus_180: bool,
    variants: Sequence[Variant],
) -> xarray.Dataset:
    import xarray

    longitudes = globe.longitudes
    if from_minus_180:
        shifted = (longitudes + 180) % 360 - 180
        order = np.argsort(shifted)
        longitudes, kelvin = shifted[order], kelvin[..., order]
    older = _is_older(variants)
    time, axis = ("time", np.float32) if older else ("valid_time", np.float64)
    stamps = (months - month_number(1970, 1)).astype("datetime64[M]").astype("datetime64[ns]")
    dims: tuple[str, ...] = (time, "latitude", "longitude")
    coordinates: dict[str, Any] = {
        time: stamps,
        "latitude": globe.latitudes.astype(axis),
        "longitude": longitudes.astype(axis),
    }
    late = months > globe.months[-1] - _PRELIMINARY_MONTHS
    if "expver dimension" in variants:
        missing = np.full_like(kelvin, np.nan)
        final = np.where(late[:, None, None], missing, kelvin)
        preliminary = np.where(late[:, None, None], kelvin, missing)
        kelvin, dims = np.stack([final, preliminary], axis=1), (time, "expver", *dims[1:])
        coordinates["expver"] = np.array([1, 5], np.int32)
    if not older:
        marked = late & ("preliminary" in variants)
        coordinates["expver"] = (time, np.where(marked, "0005", "0001").astype(object))
        coordinates["number"] = np.int64(0)
    attributes = {"units": "K", "long_name": "Sea surface temperature"}
    return xarray.Dataset({"sst": (dims, kelvin, attributes)}, coordinates)


def _write(path: Path, dataset: xarray.Dataset, variants: Sequence[Variant]) -> None:
    encoding: dict[str, Any] = {
        "valid_time": {"units": "seconds since 1970-01-01", "dtype": "int64"}
    }
    if _is_older(variants):
        encoding = {"time": {"units": "hours since 1900-01-01", "dtype": "int32"}}
    if {"packed", "netcdf3"} & set(variants):
        low, high = float(dataset.sst.min()), float(dataset.sst.max())
        # 16 bits, of which -32767 stands for a missing value.
        scale = (high - low) / 65_000
        packing = {"dtype": "int16", "scale_factor": scale, "add_offset": (low + high) / 2}
        encoding["sst"] = {**packing, "_FillValue": -32767}
    with atomic_path(path) as temporary:
        if "netcdf3" in variants:
            dataset.to_netcdf(temporary, engine="scipy", format="NETCDF3_64BIT", encoding=encoding)
        else:
            dataset.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)


def _is_older(variants: Sequence[Variant]) -> bool:
    return bool(set(variants) - {"preliminary"})
