"""Monthly means from GRIB files, message by message.

Every byte of a file must belong to a whole message, every message must have a known parameter, and
temperatures and ice must be monthly means. Other parameters are ignored, as other variables of
NetCDF are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array
import numpy as np
import xarray
from dask.utils import SerializableLock
from numpy.typing import NDArray

from vrtspike.sst.downloads import FINAL, ICE, SST
from vrtspike.sst.months import MONTHS, month_name, month_number
from vrtspike.system.errors import DataError

if TYPE_CHECKING:
    from eccodes import GRIBMessage

_LOCK = SerializableLock("eccodes")
"""Lock around eccodes, which is not thread-safe in every build."""
_MEAN_STREAMS = ("moda", "edmo")
"""Monthly means of daily means, of the reanalysis and of its ensemble."""
_MEAN_NAMES = {"avg_sst": SST, "avg_siconc": ICE, "avg_ci": ICE}
"""Names of means in GRIB 2."""
_GRIDS = ("regular_ll", "regular_gg")
_MISSING = 1e34
_AGAIN = "download the file again"


@dataclass(frozen=True)
class _Month:
    """A field of a month, and its message in the file.

    Attributes:
        name: name of the variable.
        month: number of the month.
        version: ``expver``.
        grid: digest of the description of its grid.
        offset: first byte of the message in the file.
        length: length of the message in bytes.
    """

    name: str
    month: int
    version: int
    grid: str
    offset: int
    length: int

    @property
    def title(self) -> str:
        """Variable and month, for messages."""
        return f"{self.name} of {month_name(self.month)}"


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
    try:
        import eccodes  # noqa: F401
    except (ImportError, RuntimeError) as error:
        raise DataError(
            f"{path}: cannot be used without the package eccodes ({error}): pip install eccodes, "
            "or download NetCDF"
        ) from error
    with _LOCK:
        months = _scan(path)
        fields = {name: [month for month in months if month.name == name] for name in (SST, ICE)}
        wanted = fields[SST] + fields[ICE]
        if not wanted:
            others = sorted({month.name for month in months})
            raise DataError(
                f"{path}: holds {', '.join(others) or 'no GRIB message'}; expected {SST} or {ICE} "
                "in GRIB: take the file out, or download the right variables"
            )
        for month in wanted:
            if month.grid != wanted[0].grid:
                raise DataError(
                    f"{path}: {month.title} has another grid than {wanted[0].title}; download all "
                    "months with the same region and grid"
                )
        axes = _axes(path, wanted[0])
    return [_field(path, axes, of_name) for of_name in fields.values() if of_name]


def _scan(path: Path) -> list[_Month]:
    """Return the fields of all messages of a file, in its order."""
    import eccodes

    months: list[_Month] = []
    end = 0
    location = f"{path}: after 0 messages"
    with eccodes.FileReader(path) as messages:
        while True:
            try:
                message = next(messages, None)
            except eccodes.CodesInternalError as error:
                raise DataError(
                    f"{location} stands a damaged or cut message ({error}); {_AGAIN}"
                ) from error
            if message is None:
                break
            month = _month(message, location)
            _require_adjacent(month, end, location)
            months.append(month)
            end = month.offset + month.length
            location = f"{path}: after message {len(months)} ({month.title})"
    rest = path.stat().st_size - end
    if rest:
        raise DataError(f"{location} stand {rest} bytes that are no whole GRIB message; {_AGAIN}")
    return months


def _require_adjacent(month: _Month, end: int, location: str) -> None:
    """Check that a message begins where the last one ends."""
    if month.offset > end:
        raise DataError(
            f"{location} stand {month.offset - end} bytes that are no GRIB message; expected "
            f"{month.name} of some month: {_AGAIN}"
        )
    if month.offset < end:
        raise DataError(
            f"{location} stands a second field in the same message; expected one field a message: "
            "separate them with grib_copy"
        )


def _month(message: GRIBMessage, location: str) -> _Month:
    """Return the header fields of a message.

    Raises:
        DataError: if its parameter or date is unknown, or it is not a monthly mean.
    """
    name = _text(message, "cfVarName")
    name = _MEAN_NAMES.get(name, name)
    date = _text(message, "dataDate")
    dated = re.fullmatch(r"\d{8}", date) and 1 <= int(date[4:6]) <= MONTHS
    if name in ("", "unknown") or not dated:
        raise DataError(
            f"{location} stands a message of parameter {_text(message, 'paramId')} and date "
            f"{date}; expected a known parameter and a date: {_AGAIN}"
        )
    month = month_number(int(date[:4]), int(date[4:6]))
    if name in (SST, ICE):
        _require_monthly_mean(message, f"{location} stands {name} of {month_name(month)}")
    version = _text(message, "expver")
    return _Month(
        name=name,
        month=month,
        version=int(version) if version.isdecimal() else FINAL,
        grid=_text(message, "md5GridSection"),
        offset=int(float(_text(message, "offset"))),
        length=int(_text(message, "totalLength")),
    )


def _text(message: GRIBMessage, key: str) -> str:
    """Return the value of a key as text; empty if the message has none."""
    from eccodes import CodesInternalError

    try:
        return str(message.get(key, ""))
    except CodesInternalError:
        return ""


def _require_monthly_mean(message: GRIBMessage, title: str) -> None:
    """Check that a message is the mean of a month.

    Messages of other centres than ECMWF have no stream; the type of their step marks them as means.
    """
    stream = _text(message, "stream")
    step = _text(message, "stepType")
    if stream in _MEAN_STREAMS or (not stream and step.startswith("avg")):
        return
    raise DataError(
        f"{title} of stream {stream or 'unknown'} and type of step {step}, expected the mean of a "
        "whole month (stream moda): download 'Monthly averaged reanalysis', not hourly data and "
        "not the one by hour of day"
    )


def _read(path: Path, month: _Month) -> GRIBMessage:
    import eccodes

    with path.open("rb") as stream:
        stream.seek(month.offset)
        contents = stream.read(month.length)
    return eccodes.GRIBMessage(eccodes.codes_new_from_message(contents))


def _axes(path: Path, month: _Month) -> _Axes:
    """Return the axes of the grid of a month.

    Raises:
        DataError: if it is not a regular grid of latitudes and longitudes, or wrongly described.
    """
    from eccodes import CodesInternalError

    title = f"{path}: {month.title}"
    message = _read(path, month)
    try:
        kind = message["gridType"]
        if kind not in _GRIDS:
            raise DataError(
                f"{title} has the grid {kind}, expected {' or '.join(_GRIDS)}; download it on a "
                "regular grid of latitudes and longitudes"
            )
        by_column = bool(message["jPointsAreConsecutive"])
        shape = message["Nj"], message["Ni"]
        latitudes = _by_row(message.get_array("latitudes"), shape, by_column)
        longitudes = _by_row(message.get_array("longitudes"), shape, by_column)
    except (CodesInternalError, KeyError, ValueError) as error:
        raise DataError(
            f"{title} has a wrong description of its grid ({error}); {_AGAIN}, or correct it with "
            "grib_set"
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


def _field(path: Path, axes: _Axes, months: list[_Month]) -> xarray.DataArray:
    """Return the months of one variable, lazy; an error names file and month."""
    read = dask.delayed(_values)
    chunks = []
    for start in range(0, len(months), MONTHS):
        chunk = months[start : start + MONTHS]
        shape = (len(chunk), len(axes.latitudes), len(axes.longitudes))
        chunks.append(dask.array.from_delayed(read(path, axes, chunk), shape, np.float64))
    coords: dict[str, Any] = {
        "time": [month.month for month in months],
        "latitude": axes.latitudes,
        "longitude": axes.longitudes,
        "version": ("time", [month.version for month in months]),
        "source": ("time", [str(path)] * len(months)),
    }
    values = dask.array.concatenate(chunks)
    return xarray.DataArray(values, coords, ("time", "latitude", "longitude"), months[0].name)


def _values(path: Path, axes: _Axes, months: list[_Month]) -> NDArray[np.float64]:
    """Read the values of some months by (month, latitude, longitude), NaN where they are missing.

    Raises:
        DataError: if a month cannot be read.
    """
    from eccodes import CodesInternalError

    shape = (len(axes.latitudes), len(axes.longitudes))
    fields = []
    for month in months:
        try:
            with _LOCK:
                values = _decode(path, month)
            fields.append(_by_row(values, shape, axes.by_column))
        except (CodesInternalError, OSError, LookupError, ValueError) as error:
            raise DataError(
                f"{path}: {month.title} cannot be read ({error}); the file is damaged or cut: "
                "download it again"
            ) from error
    field = np.stack(fields)
    return np.where(field == _MISSING, np.nan, field)


def _decode(path: Path, month: _Month) -> NDArray[np.float64]:
    """Return the values of a message in their order, :data:`_MISSING` where they are missing."""
    message = _read(path, month)
    message.set("missingValue", _MISSING)
    values: NDArray[np.float64] = message.get_array("values")
    return values
