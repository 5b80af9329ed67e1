"""Monthly means of sea surface temperature and sea ice from downloaded files of ERA5.

Formats: NetCDF 3 and 4 and GRIB, one file or several, in any order; the dimension ``time`` or
``valid_time``; packed numbers; and ``expver``, which distinguishes final months (1) from
preliminary ones (5, "ERA5T"): as a dimension, as a value along the time, as an attribute, or not
at all. If a month has both versions, the final one is used. Files are opened lazily and read in
chunks.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import xarray
from numpy.typing import NDArray

from vrtspike.sst.grib import read_grib
from vrtspike.sst.lazy_months import ArraySlices, lazy_months
from vrtspike.sst.settings import (
    DOWNLOAD_SUFFIXES,
    FINAL,
    GRIB_SUFFIXES,
    ICE,
    MONTHS,
    SST,
    month_name,
    month_number,
)
from vrtspike.system.errors import DataError

_UNITS = {SST: ("K", "Kelvin", "kelvin"), ICE: ("(0 - 1)", "1")}
_PRODUCT = "'ERA5 monthly averaged data on single levels', variable 'Sea surface temperature'"
_TIMES = ("time", "valid_time")
_AXES = ("latitude", "longitude")
_METHODS = re.compile(r"((?:\w+: )+)(\w+)((?: (?:within|over|where) \w+)*)")
"""Axes, statistic and what it is over, by the conventions CF."""
_APPLE_DOUBLE = b"\x00\x05\x16\x07"
"""First bytes of the attributes that macOS writes as ``._name`` on a disk of another system."""


def find_files(root: str | Path) -> list[Path]:
    """List the files of a download: the file itself, or all files in a folder, by name.

    Files with attributes from macOS (``._name``) are ignored.

    Raises:
        DataError: if there is none.
    """
    root = Path(root)
    if root.is_file():
        return [root]
    paths = sorted(path for path in root.glob("*") if path.suffix.lower() in DOWNLOAD_SUFFIXES)
    files = [path for path in paths if not _is_apple_double(path)]
    if not files:
        raise DataError(
            f"{root}: no file or folder with *{', *'.join(DOWNLOAD_SUFFIXES)}; expected NetCDF or "
            f"GRIB of {_PRODUCT}, one or one per year: download them, or see DATA.GENERATE"
        )
    return files


def _is_apple_double(path: Path) -> bool:
    if not path.name.startswith("._"):
        return False
    with path.open("rb") as stream:
        return stream.read(len(_APPLE_DOUBLE)) == _APPLE_DOUBLE


def read_months(root: str | Path) -> xarray.Dataset:
    """Read the months of a download, in order; months that no file holds are absent.

    Args:
        root: a file, or a folder of files.

    Returns:
        lazy ``sst`` in kelvin, NaN over land, and ``siconc`` (0 to 1) if the files have it, by
        ``time`` (numbers of months, :mod:`vrtspike.sst.settings`), latitude and longitude; beside
        the time are ``version`` (``expver``) and ``source`` (the file) of the temperature, and
        ``ice_source``, the file of the ice. The source of a variable is missing for a month without
        field.

    Raises:
        DataError: naming a file that cannot be used, with what was found and expected; or if the
            files do not fit together.
    """
    fields = [field for path in find_files(root) for field in _read_file(path)]
    parts = {name: [field for field in fields if field.name == name] for name in (SST, ICE)}
    if not parts[SST]:
        raise DataError(f"{root}: found no file with the variable {SST}; download {_PRODUCT}")
    _require_same_grid(fields)
    series = [_series(parts[SST])]
    if parts[ICE]:
        series.append(_series(parts[ICE]).drop_vars("version").rename(source="ice_source"))
    return xarray.merge(series, join="outer")


def _require_same_grid(fields: list[xarray.DataArray]) -> None:
    """Check that all fields have the latitudes and longitudes of the first."""
    first = fields[0]
    for field in fields[1:]:
        if any(not np.array_equal(field[axis], first[axis]) for axis in _AXES):
            raise DataError(
                f"{field.source.values[0]}: its latitudes and longitudes are not those of "
                f"{first.source.values[0]}; download all files with the same region and grid"
            )


def _read_file(path: Path) -> list[xarray.DataArray]:
    """Read the variables of a file lazily."""
    if path.suffix.lower() in GRIB_SUFFIXES:
        return read_grib(path)
    try:
        opened = xarray.open_dataset(path, chunks=None, cache=False)
        names = [name for name in (SST, ICE) if name in opened]
        if not names:
            raise ValueError(f"it holds {', '.join(map(str, opened)) or 'nothing'}")
    except (OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError) as error:
        raise DataError(
            f"{path}: cannot be used ({str(error).splitlines()[0]}); expected {SST} or {ICE} in "
            "NetCDF or GRIB: unpack a zip archive, download a damaged file again, take another "
            "one out"
        ) from error
    return [part for name in names for part in _months(opened[name], path)]


def _months(field: xarray.DataArray, path: Path) -> list[xarray.DataArray]:
    """Read a variable by (time, latitude, longitude), lazily, with ``version`` and ``source``.

    If the version is a dimension, the result has an array for each version.
    """
    field = field.squeeze()
    time = _time_axis(field)
    if time not in field.dims:
        field = field.expand_dims(time)
    _require_usable(field, time, path)
    require_monthly_means(field, time, path)
    field = _guard(field, time, path)
    versions = [field]
    if "expver" in field.dims:
        # A month is in one of the versions, and NaN in the others.
        versions = [field.sel(expver=label).dropna(time, how="all") for label in field["expver"]]
    return [_label(part, time, path) for part in versions]


def _time_axis(field: xarray.DataArray) -> str:
    """Return the name of the dimension or coordinate that holds the dates."""
    for name in (*field.dims, *field.coords):
        if name in _TIMES:
            return str(name)
    return _TIMES[0]


def _require_usable(field: xarray.DataArray, time: str, path: Path) -> None:
    """Check that a variable has the units, dimensions and dates of a download."""
    name = str(field.name)
    units = field.attrs.get("units", field.attrs.get("GRIB_units"))
    dates = field.coords[time] if time in field.coords else xarray.DataArray([])
    has_units = units in _UNITS[name]
    has_axes = {*field.dims} - {"expver"} == {time, *_AXES}
    has_dates = dates.size > 0 and hasattr(dates, "dt") and not dates.isnull().any()
    if not (has_units and has_axes and has_dates):
        raise DataError(
            f"{path}: {name} has units {units!r}, the dimensions {', '.join(map(str, field.dims))} "
            f"and {dates.size} times of type {dates.dtype}; expected {_UNITS[name][0]!r}, "
            "latitude, longitude, dates (time or valid_time); take the file as it was downloaded, "
            "the reanalysis on its regular grid, one field a month"
        )


def require_monthly_means(field: xarray.DataArray, time: str, path: Path) -> None:
    """Refuse a field whose description contradicts its use.

    Raises:
        DataError: naming file, month, what was found and what was expected.
    """
    for fault in (_step_type(field), _cell_method(field, time), _hour_of_day(field, time)):
        if fault:
            dates = field[time]
            first = month_name(month_number(int(dates.dt.year[0]), int(dates.dt.month[0])))
            raise DataError(
                f"{path}: {field.name} from {first} on has {fault}, expected means of whole "
                "months: download 'Monthly averaged reanalysis', not hourly data and not the one "
                "by hour of day"
            )


def _step_type(field: xarray.DataArray) -> str:
    """Describe the steps in a file made from GRIB."""
    step = field.attrs.get("GRIB_stepType")
    if step is None or str(step).startswith("avg"):
        return ""
    return f"GRIB_stepType {step!r}"


def _cell_method(field: xarray.DataArray, time: str) -> str:
    """Return a statistic over the time that is no mean of consecutive days."""
    methods = str(field.attrs.get("cell_methods", ""))
    for axes, method, span in _METHODS.findall(methods):
        of_time = {time, *_TIMES} & set(axes.replace(":", "").split())
        if of_time and (method != "mean" or "over years" in span):
            return f"cell_methods {methods!r}"
    return ""


def _hour_of_day(field: xarray.DataArray, time: str) -> str:
    """Return an hour at the first day of each month, as means of one hour of each day have it."""
    if "cell_methods" in field.attrs:
        return ""
    dates = field[time].dt
    first_days = bool((dates.day == 1).all())
    hours = sorted({int(hour) for hour in dates.hour.values})
    if first_days and hours != [0]:
        return f"times at {', '.join(f'{hour}:00' for hour in hours[:3])} of the first of a month"
    return ""


def _guard(field: xarray.DataArray, time: str, path: Path) -> xarray.DataArray:
    """Return the field, read lazily by chunks; an error names file and month."""

    def read(key: ArraySlices) -> NDArray[np.float64]:
        return field.variable[key].to_numpy()

    # Parts are whole chunks, because a compressed chunk is unpacked as a whole.
    stored = field.encoding.get("preferred_chunks", {}).get(time, 1)
    values = lazy_months(
        f"{path}: {field.name}",
        _month_numbers(field[time]),
        read,
        field.shape,
        axis=field.dims.index(time),
        chunk=max(MONTHS, stored),
    )
    return field.copy(data=values)


def _month_numbers(dates: xarray.DataArray) -> list[int]:
    numbers = MONTHS * dates.dt.year + dates.dt.month - 1
    return [int(number) for number in numbers.values]


def _label(part: xarray.DataArray, time: str, path: Path) -> xarray.DataArray:
    """Return a field with the coordinates of :func:`read_months`."""
    months = _month_numbers(part[time])
    label = part.coords.get("expver", part.attrs.get("GRIB_expver", FINAL))
    coords = {
        "time": months,
        **{axis: part[axis].values for axis in _AXES},
        "version": ("time", np.full(len(months), np.asarray(label, int))),
        "source": ("time", [str(path)] * len(months)),
    }
    values = part.transpose(time, *_AXES).chunk({time: MONTHS, **dict.fromkeys(_AXES, -1)}).data
    return xarray.DataArray(values, coords, ("time", *_AXES), str(part.name))


def _series(parts: list[xarray.DataArray]) -> xarray.DataArray:
    """Join parts of one variable by time; a final version of a month replaces a preliminary one."""
    joined = xarray.concat(parts, "time", join="override").sortby(["time", "version"])
    steps = np.diff([joined.time, joined.version])
    for index in np.flatnonzero((steps == 0).all(axis=0)):
        files = dict.fromkeys(joined.source.values[index : index + 2].tolist())
        raise DataError(
            f"{' and '.join(files)}: {joined.name} of {month_name(int(joined.time[index]))} stands "
            "more than once; expected one field a month: keep one of the files, and download "
            "'Monthly averaged reanalysis', not the one by hour of day"
        )
    return joined.drop_duplicates("time")
