"""Monthly means of sea surface temperature and sea ice out of files as ERA5 delivers them.

Understood are NetCDF 3 and 4 and GRIB, one file or several, in any order; the dimension ``time`` or
``valid_time``; packed numbers; and ``expver``, by which the files tell final months (1) from
preliminary ones (5, "ERA5T"): as a dimension, as a value beside the time, or not at all. Where a
month is there in both, the final one is taken. Everything is opened lazily and read in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from vrtspike.sst.settings import MONTHS, month_name
from vrtspike.system.errors import DataError

SST, ICE = "sst", "siconc"
FINAL = 1
"""``expver`` of final months."""
_GRIB = (".grib", ".grib2", ".grb", ".grb2")
SUFFIXES = (".nc", ".nc4", ".netcdf", *_GRIB)
_UNITS = {SST: ("K", "Kelvin", "kelvin"), ICE: ("(0 - 1)", "1")}
_PRODUCT = "'ERA5 monthly averaged data on single levels', variable 'Sea surface temperature'"
_TIMES = ("time", "valid_time")
_AXES = ("latitude", "longitude")


def find_files(root: str | Path) -> list[Path]:
    """The files of a download: the file itself, or all files in a folder, by name.

    Raises:
        DataError: if there is none.
    """
    root = Path(root)
    if root.is_file():
        return [root]
    found = sorted(path for path in root.glob("*") if path.suffix.lower() in SUFFIXES)
    if not found:
        raise DataError(
            f"{root}: no file or folder with *{', *'.join(SUFFIXES)}; expected NetCDF or GRIB of "
            f"{_PRODUCT}, one or one per year: download them, or see DATA.GENERATE"
        )
    return found


def read_months(root: str | Path) -> xarray.Dataset:
    """The months of a download, in order; months that no file holds are absent.

    Args:
        root: a file, or a folder of files.

    Returns:
        lazy ``sst`` in kelvin, NaN over land, and ``siconc`` (0 to 1) if the files have it, by
        ``time`` (numbers of months, :mod:`vrtspike.sst.settings`), latitude and longitude; beside
        the time stand ``version`` (``expver``) and ``source`` (the file).

    Raises:
        DataError: naming a file that cannot be used, with what was found and expected; or if the
            files do not fit together.
    """
    fields = [field for path in find_files(root) for field in _read_file(path)]
    parts = {name: [field for field in fields if field.name == name] for name in (SST, ICE)}
    if not parts[SST]:
        raise DataError(f"{root}: found no file with the variable {SST}; download {_PRODUCT}")
    for field in fields[1:]:
        if any(not np.array_equal(field[axis], fields[0][axis]) for axis in _AXES):
            raise DataError(
                f"{field.source.values[0]}: its latitudes and longitudes are not those of "
                f"{fields[0].source.values[0]}; download all files with the same region and grid"
            )
    series = [_series(parts[name]) for name in (SST, ICE) if parts[name]]
    # Of each month, version and source are those of the temperature.
    return xarray.merge(series, join="left", compat="override")


def _read_file(path: Path) -> list[xarray.DataArray]:
    """The variables of a file, lazy; packed values become numbers when they are read."""
    # cfgrib would write an index beside the file, where a user may not.
    grib = {"engine": "cfgrib", "backend_kwargs": {"indexpath": "", "read_keys": ["expver"]}}
    options: dict[str, Any] = grib if path.suffix.lower() in _GRIB else {}
    try:
        opened = xarray.open_dataset(path, chunks={}, **options)
        if not (names := [name for name in (SST, ICE) if name in opened]):
            raise ValueError(f"it holds {', '.join(map(str, opened)) or 'nothing'}")
    except (OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError) as error:
        raise DataError(
            f"{path}: cannot be used ({str(error).splitlines()[0]}); expected {SST} or {ICE} in "
            "NetCDF, or GRIB with the package cfgrib (pip install 'vrtspike[grib]'): unpack a zip "
            "archive, download a damaged file again, take another one out"
        ) from error
    return [part for name in names for part in _versions(opened[name], path)]


def _versions(field: xarray.DataArray, path: Path) -> Iterator[xarray.DataArray]:
    """A variable by (time, latitude, longitude), with ``version`` and ``source``.

    Where the version is a dimension, each is returned by itself.
    """
    name = str(field.name)
    units = field.attrs.get("units", field.attrs.get("GRIB_units"))
    field = field.squeeze()
    time = next((t for t in (*field.dims, *field.coords) if t in _TIMES), _TIMES[0])
    if time not in field.dims:
        field = field.expand_dims(time)
    dates = field.coords[time] if time in field.coords else xarray.DataArray([])
    usable = units in _UNITS[name] and {*field.dims} - {"expver"} == {time, *_AXES}
    if not usable or not dates.size or not hasattr(dates, "dt") or dates.isnull().any():
        raise DataError(
            f"{path}: {name} has units {units!r}, the dimensions {', '.join(map(str, field.dims))} "
            f"and {dates.size} times of type {dates.dtype}; expected {_UNITS[name][0]!r}, "
            "latitude, longitude, dates (time or valid_time); take the file as it was downloaded, "
            "the reanalysis on its regular grid, one field a month"
        )
    versions = [field]
    if "expver" in field.dims:
        # Each month stands in one of the versions and is missing in the others.
        versions = [field.sel(expver=each).dropna(time, how="all") for each in field["expver"]]
    for part in versions:
        months = MONTHS * part[time].dt.year + part[time].dt.month - 1
        version = np.asarray(part.coords.get("expver", FINAL), int)
        coords = {
            "time": months.values,
            **{axis: part[axis].values for axis in _AXES},
            "version": ("time", np.full(months.size, version)),
            "source": ("time", [str(path)] * months.size),
        }
        values = part.transpose(time, *_AXES).chunk({time: MONTHS, **dict.fromkeys(_AXES, -1)}).data
        yield xarray.DataArray(values, coords, ("time", *_AXES), name)


def _series(parts: list[xarray.DataArray]) -> xarray.DataArray:
    """Parts of one variable, joined by time; of each month the final version where there is one."""
    joined = xarray.concat(parts, "time", join="override").sortby(["time", "version"])
    steps = np.diff([joined.time, joined.version])
    for place in np.flatnonzero((steps == 0).all(axis=0)):
        files = dict.fromkeys(joined.source.values[place : place + 2].tolist())
        raise DataError(
            f"{' and '.join(files)}: {joined.name} of {month_name(int(joined.time[place]))} stands "
            "more than once; expected one field a month: keep one of the files, and download "
            "'Monthly averaged reanalysis', not the one by hour of day"
        )
    return joined.drop_duplicates("time")
