"""Monthly means from NetCDF files, read lazily in chunks.

The dimension of time is ``time`` or ``valid_time``; numbers may be packed; and ``expver``, which
distinguishes final months (1) from preliminary ones (5, "ERA5T"), is a dimension, a value along the
time, an attribute, or missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import xarray
from dask.array.core import normalize_chunks
from numpy.typing import NDArray

from vrtspike.sst.downloads import FINAL, ICE, SST
from vrtspike.sst.months import MONTHS, month_name, month_number
from vrtspike.system.errors import DataError

_UNITS = {SST: ("K", "Kelvin", "kelvin"), ICE: ("(0 - 1)", "1")}
_TIMES = ("time", "valid_time")
_AXES = ("latitude", "longitude")
_METHODS = re.compile(r"((?:\w+: )+)(\w+)((?: (?:within|over|where) \w+)*)")
"""Axes, statistic and what it is over, by the conventions CF."""
_UNREADABLE = (OSError, ValueError, RuntimeError, LookupError, TypeError, EOFError)
"""Errors of the libraries for damaged contents."""


def read_netcdf(path: Path) -> list[xarray.DataArray]:
    """Read temperature and ice of a file, each by (time, latitude, longitude), lazily.

    A variable with ``expver`` as a dimension becomes an array for each version. Coordinates of the
    time (numbers of months) are ``version`` (``expver``) and ``source`` (the file).

    Raises:
        DataError: naming the file, if it cannot be opened, lacks both variables, or holds another
            form of them; and when computed, naming the month, if it cannot be read.
    """
    try:
        opened = xarray.open_dataset(path, chunks=None, cache=False)
        names = [name for name in (SST, ICE) if name in opened]
        if not names:
            raise ValueError(f"it holds {', '.join(map(str, opened)) or 'nothing'}")
    except _UNREADABLE as error:
        raise DataError(
            f"{path}: cannot be used ({str(error).splitlines()[0]}); expected {SST} or {ICE} in "
            "NetCDF or GRIB: unpack a zip archive, download a damaged file again, take another "
            "one out"
        ) from error
    return [part for name in names for part in _versions(opened[name], path)]


def _versions(field: xarray.DataArray, path: Path) -> list[xarray.DataArray]:
    """Return the versions of a variable, one if ``expver`` is not a dimension."""
    field = field.squeeze()
    time = _time_axis(field)
    if time not in field.dims:
        field = field.expand_dims(time)
    _require_usable(field, time, path)
    require_monthly_means(field, time, path)
    field = _by_chunks(field, time, path)
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
    """Reject a field whose description contradicts its use.

    Raises:
        DataError: naming file and month.
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
    """Return a statistic over the time that is not a mean of consecutive days."""
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


def _by_chunks(field: xarray.DataArray, time: str, path: Path) -> xarray.DataArray:
    """Return the field as float64, read lazily by chunks; an error names file and month."""
    axis = field.dims.index(time)
    months = _month_numbers(field[time])

    def read_chunk(block_info: Mapping[Any, Any]) -> NDArray[np.float64]:
        start, stop = block_info[None]["array-location"][axis]
        try:
            return _read(field, time, start, stop)
        except _UNREADABLE as error:
            month = months[_first_unreadable(field, time, start, stop)]
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise DataError(
                f"{path}: {field.name} of {month_name(month)} cannot be read ({reason}); the file "
                "is damaged or cut: download it again"
            ) from error

    # Parts are whole chunks, because a compressed chunk is unpacked as a whole.
    stored = field.encoding.get("preferred_chunks", {}).get(time, 1)
    sizes = [-1] * field.ndim
    sizes[axis] = max(MONTHS, stored)
    chunks = normalize_chunks(tuple(sizes), field.shape)
    meta = np.empty((0,) * field.ndim)
    values = dask.array.map_blocks(read_chunk, chunks=chunks, dtype=meta.dtype, meta=meta)
    return field.copy(data=values)


def _read(field: xarray.DataArray, time: str, start: int, stop: int) -> NDArray[np.float64]:
    """Read some months of a field that is opened.

    Raises:
        ValueError: if fewer values are there than the file says; other errors of the libraries.
    """
    part = field.variable.isel({time: slice(start, stop)})
    values = part.to_numpy().astype(np.float64)
    if values.shape != part.shape:
        raise ValueError(f"found {values.shape} values, expected {part.shape}")
    return values


def _first_unreadable(field: xarray.DataArray, time: str, start: int, stop: int) -> int:
    """Return the index of the first of some months that cannot be read."""
    for index in range(start, stop):
        try:
            _read(field, time, index, index + 1)
        except _UNREADABLE:
            return index
    return start


def _month_numbers(dates: xarray.DataArray) -> list[int]:
    """Return the number of each month (:mod:`vrtspike.sst.months`)."""
    years = dates.dt.year.values.tolist()
    months = dates.dt.month.values.tolist()
    return list(map(month_number, years, months))


def _label(part: xarray.DataArray, time: str, path: Path) -> xarray.DataArray:
    """Return a field with the coordinates of :func:`vrtspike.sst.reading.read_months`."""
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
