"""Monthly means from GRIB files, message by message.

Every byte of a file must belong to a whole message, every message must have a known parameter, and
temperatures and ice must be monthly means. Other parameters are ignored, as other variables of
NetCDF are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import xarray
from dask.utils import SerializableLock
from numpy.typing import NDArray

from vrtspike.sst.lazy_months import ArraySlices, lazy_months
from vrtspike.sst.settings import FINAL, ICE, MONTHS, SST, month_name, month_number
from vrtspike.system.errors import DataError

_LOCK = "eccodes"
"""Name of the lock around eccodes, which is not thread-safe in every build."""
_MEAN_STREAMS = ("moda", "edmo")
"""Monthly means of daily means, of the reanalysis and of its ensemble."""
_MEAN_NAMES = {"avg_sst": SST, "avg_siconc": ICE, "avg_ci": ICE}
"""Names of means in GRIB 2."""
_GRIDS = ("regular_ll", "regular_gg")
_MISSING = 1e34
_AGAIN = "download the file again"


@dataclass(frozen=True)
class _Message:
    """A field of a month, and its place in the file.

    Attributes:
        name: name of the variable.
        month: number of the month.
        version: ``expver``.
        grid: digest of the description of its grid.
        offset: first byte in the file.
        length: length in bytes.
    """

    name: str
    month: int
    version: int
    grid: str
    offset: int
    length: int


@dataclass(frozen=True)
class _Axes:
    """Axes of a grid, and the order of its values in a message.

    Attributes:
        latitudes: (H,) degrees north of the rows.
        longitudes: (W,) degrees east of the columns.
        by_column: true if the values of a column follow each other in a message.
    """

    latitudes: NDArray[np.float64]
    longitudes: NDArray[np.float64]
    by_column: bool


def read_grib(path: Path) -> list[xarray.DataArray]:
    """Read temperature and ice of a file, each by (time, latitude, longitude), lazily.

    Coordinates of the time are ``version`` (``expver``) and ``source`` (the file).

    Raises:
        DataError: naming file and month, if a message is damaged, cut, unknown or no monthly mean,
            or if messages have different grids or an unsupported one.
    """
    messages = _scan(path)
    wanted = [message for message in messages if message.name in (SST, ICE)]
    if not wanted:
        others = sorted({message.name for message in messages})
        raise DataError(
            f"{path}: holds {', '.join(others) or 'no GRIB message'}; expected {SST} or {ICE} in "
            "GRIB: take the file out, or download the right variables"
        )
    for message in wanted:
        if message.grid != wanted[0].grid:
            raise DataError(
                f"{path}: {message.name} of {month_name(message.month)} has another grid than "
                f"{wanted[0].name} of {month_name(wanted[0].month)}; download all months with the "
                "same region and grid"
            )
    axes = _axes(path, wanted[0])
    by_name: dict[str, list[_Message]] = {}
    for message in wanted:
        by_name.setdefault(message.name, []).append(message)
    return [_field(path, axes, of_name) for of_name in by_name.values()]


def _eccodes(path: Path) -> ModuleType:
    try:
        import eccodes
    except (ImportError, RuntimeError) as error:
        raise DataError(
            f"{path}: cannot be used without the package eccodes ({error}): pip install eccodes, "
            "or download NetCDF"
        ) from error
    return eccodes


def _scan(path: Path) -> list[_Message]:
    """Return all messages of a file, in its order."""
    eccodes = _eccodes(path)
    messages: list[_Message] = []
    end = 0
    location = f"{path}: after 0 messages"
    with SerializableLock(_LOCK), path.open("rb") as stream:
        while True:
            try:
                handle = eccodes.codes_grib_new_from_file(stream)
            except eccodes.CodesInternalError as error:
                raise DataError(
                    f"{location} stands a damaged or cut message ({error}); {_AGAIN}"
                ) from error
            if handle is None:
                break
            try:
                message = _message(eccodes, handle, location)
            finally:
                eccodes.codes_release(handle)
            _require_adjacent(message, end, location)
            messages.append(message)
            end = message.offset + message.length
            last = f"{message.name} of {month_name(message.month)}"
            location = f"{path}: after message {len(messages)} ({last})"
    rest = path.stat().st_size - end
    if rest:
        raise DataError(f"{location} stand {rest} bytes that are no whole GRIB message; {_AGAIN}")
    return messages


def _require_adjacent(message: _Message, end: int, location: str) -> None:
    """Check that a message begins where the last one ends."""
    if message.offset > end:
        raise DataError(
            f"{location} stand {message.offset - end} bytes that are no GRIB message; expected "
            f"{message.name} of some month: {_AGAIN}"
        )
    if message.offset < end:
        raise DataError(
            f"{location} stands a second field in the same message; expected one field a message: "
            "separate them with grib_copy"
        )


def _message(eccodes: ModuleType, handle: int, location: str) -> _Message:
    """Return the header fields of a message.

    Raises:
        DataError: if its parameter or date is unknown, or it is no monthly mean.
    """
    get = partial(_get, eccodes, handle)
    name = get("cfVarName")
    name = _MEAN_NAMES.get(name, name)
    date = get("dataDate")
    dated = re.fullmatch(r"\d{8}", date) and 1 <= int(date[4:6]) <= MONTHS
    if name in ("", "unknown") or not dated:
        raise DataError(
            f"{location} stands a message of parameter {get('paramId')} and date {date}; expected "
            f"a known parameter and a date: {_AGAIN}"
        )
    month = month_number(int(date[:4]), int(date[4:6]))
    if name in (SST, ICE):
        _require_monthly_mean(get, f"{location} stands {name} of {month_name(month)}")
    version = get("expver")
    return _Message(
        name=name,
        month=month,
        version=int(version) if version.isdecimal() else FINAL,
        grid=get("md5GridSection"),
        offset=int(float(get("offset"))),
        length=int(get("totalLength")),
    )


def _get(eccodes: ModuleType, handle: int, key: str) -> str:
    """Return the value of a key, "" if the message has none."""
    try:
        return str(eccodes.codes_get(handle, key))
    except eccodes.CodesInternalError:
        return ""


def _require_monthly_mean(get: Callable[[str], str], title: str) -> None:
    """Check that a message is the mean of a month.

    Messages of other centres than ECMWF have no stream; the type of their step marks them as means.
    """
    stream, step = get("stream"), get("stepType")
    if stream in _MEAN_STREAMS or (not stream and step.startswith("avg")):
        return
    raise DataError(
        f"{title} of stream {stream or 'unknown'} and type of step {step}, expected the mean of a "
        "whole month (stream moda): download 'Monthly averaged reanalysis', not hourly data and "
        "not the one by hour of day"
    )


@contextmanager
def _opened(path: Path, message: _Message) -> Iterator[tuple[ModuleType, int]]:
    """Provide eccodes, for one thread at a time, and its handle of a message."""
    eccodes = _eccodes(path)
    with path.open("rb") as stream:
        stream.seek(message.offset)
        contents = stream.read(message.length)
    with SerializableLock(_LOCK):
        handle = eccodes.codes_new_from_message(contents)
        try:
            yield eccodes, handle
        finally:
            eccodes.codes_release(handle)


def _axes(path: Path, message: _Message) -> _Axes:
    """Return the axes of the grid of a message.

    Raises:
        DataError: if it is no regular grid of latitudes and longitudes, or wrongly described.
    """
    title = f"{path}: {message.name} of {month_name(message.month)}"
    with _opened(path, message) as (eccodes, handle):
        try:
            kind = eccodes.codes_get(handle, "gridType")
            if kind not in _GRIDS:
                raise DataError(
                    f"{title} has the grid {kind}, expected {' or '.join(_GRIDS)}; download it on "
                    "a regular grid of latitudes and longitudes"
                )
            by_column = bool(eccodes.codes_get(handle, "jPointsAreConsecutive"))
            shape = eccodes.codes_get(handle, "Nj"), eccodes.codes_get(handle, "Ni")
            latitudes = _by_row(eccodes.codes_get_array(handle, "latitudes"), shape, by_column)
            longitudes = _by_row(eccodes.codes_get_array(handle, "longitudes"), shape, by_column)
        except (eccodes.CodesInternalError, ValueError) as error:
            raise DataError(
                f"{title} has a wrong description of its grid ({error}); {_AGAIN}, or correct it "
                "with grib_set"
            ) from error
    rows_are_regular = np.allclose(latitudes, latitudes[:, :1])
    columns_are_regular = np.allclose(longitudes, longitudes[:1])
    if not (rows_are_regular and columns_are_regular):
        raise DataError(
            f"{title} has points that are no rows of equal latitude and columns of equal "
            f"longitude; {_AGAIN} on a regular grid"
        )
    return _Axes(latitudes[:, 0], longitudes[0], by_column)


def _by_row(
    values: NDArray[np.float64], shape: tuple[int, int], by_column: bool
) -> NDArray[np.float64]:
    """Return the values of a message by (latitude, longitude)."""
    if by_column:
        return values.reshape(shape[::-1]).T
    return values.reshape(shape)


def _field(path: Path, axes: _Axes, messages: list[_Message]) -> xarray.DataArray:
    """Return the messages of one parameter, lazy."""

    def read(key: ArraySlices) -> NDArray[np.float64]:
        fields = [_values(path, axes, message) for message in messages[key[0]]]
        return np.stack(fields)[(slice(None), *key[1:])]

    shape = (len(messages), len(axes.latitudes), len(axes.longitudes))
    months = [message.month for message in messages]
    name = messages[0].name
    coords: dict[str, Any] = {
        "time": months,
        "latitude": axes.latitudes,
        "longitude": axes.longitudes,
        "version": ("time", [message.version for message in messages]),
        "source": ("time", [str(path)] * len(messages)),
    }
    values = lazy_months(f"{path}: {name}", months, read, shape)
    return xarray.DataArray(values, coords, ("time", "latitude", "longitude"), name)


def _values(path: Path, axes: _Axes, message: _Message) -> NDArray[np.float64]:
    """Read the values of a month by (latitude, longitude), NaN where they are missing."""
    with _opened(path, message) as (eccodes, handle):
        try:
            eccodes.codes_set(handle, "missingValue", _MISSING)
            values = eccodes.codes_get_values(handle)
        except eccodes.CodesInternalError as error:
            raise ValueError(str(error)) from error
    field = _by_row(values, (len(axes.latitudes), len(axes.longitudes)), axes.by_column)
    return np.where(field == _MISSING, np.nan, field)
