"""Monthly means of sea surface temperature out of files as ERA5 delivers them.

What differs between downloads and is understood: one file or several; the dimension ``time`` or
``valid_time``; rising or falling latitudes; longitudes from 0 or from -180; packed numbers; and the
preliminary months (ERA5T) at the end, which have an ``expver`` of their own, as a dimension (then
each field stands in one of the versions and is missing in the other) or as a value beside the
time. Final values are taken before preliminary ones. Everything else is refused with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError, list_faults
from vrtspike.sst.months import MONTHS, month_name, month_number
from vrtspike.sst.opening import damaged, find_files, open_file

if TYPE_CHECKING:
    import xarray

VARIABLE = "sst"
_KELVIN = ("K", "Kelvin", "kelvin")
_PLAUSIBLE_K = (250.0, 330.0)
"""What a temperature of the sea in kelvin can be, generously."""
_FINAL = 1
"""``expver`` of final months; those of ERA5T have 5."""
_TIMES = ("time", "valid_time")
_LISTED = 8
"""Most faults of a kind that a message lists."""


@dataclass(frozen=True)
class MonthlyFile:
    """What a file holds, without its fields.

    Attributes:
        path: the file.
        months: number of each month (:mod:`vrtspike.sst.months`), rising.
        places: where each of them stands along the file's time.
        preliminary: those among the months that a value beside the time marks as ERA5T.
        latitudes: (h,) degrees.
        longitudes: (w,) degrees.
    """

    path: Path
    months: tuple[int, ...]
    places: tuple[int, ...]
    preliminary: frozenset[int]
    latitudes: tuple[float, ...]
    longitudes: tuple[float, ...]


@dataclass(frozen=True)
class Slab:
    """Up to a year of fields.

    Attributes:
        months: their numbers.
        kelvin: (n, h, w) float32, NaN over land.
        preliminary: those of the months that are ERA5T.
    """

    months: tuple[int, ...]
    kelvin: NDArray[np.float32]
    preliminary: frozenset[int]


class MonthlyMeans:
    """The months of a download, in order, without gaps.

    Args:
        root: a file, or a folder of files.

    Raises:
        DataError: naming all files that cannot be used, each with what was found and expected; or
            if the files do not follow one another month by month on one grid.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.files = _in_order(self.root, _inspected(self.root))
        self.months = tuple(month for file in self.files for month in file.months)

    @property
    def latitudes(self) -> tuple[float, ...]:
        """(h,) degrees, as in the files."""
        return self.files[0].latitudes

    @property
    def longitudes(self) -> tuple[float, ...]:
        """(w,) degrees, as in the files."""
        return self.files[0].longitudes

    def slabs(self) -> Iterator[Slab]:
        """All fields, at most a year at a time.

        Raises:
            DataError: if a file cannot be read, a month is empty, or values are no kelvin.
        """
        for file in self.files:
            yield from read_slabs(file)


def _inspected(root: Path) -> list[MonthlyFile]:
    """What each file holds; one error for all that cannot be used."""
    files, faults = [], []
    for path in find_files(root):
        try:
            files.append(inspect_file(path))
        except DataError as error:
            faults.append(str(error))
    if len(faults) > 1:
        advice = "Mend them, or take them out of the folder."
        raise DataError(list_faults(f"{root}: files that cannot be used", faults, advice))
    if faults:
        raise DataError(faults[0])
    return files


def inspect_file(path: Path) -> MonthlyFile:
    """Look at what a file holds.

    Raises:
        DataError: if it is not a file of monthly means of the sea surface temperature in kelvin.
    """
    with open_file(path) as dataset:
        field = _field(dataset, path)
        time = _time_name(field, path)
        numbers = _month_numbers(field[time].values, path)
        versions = _versions_beside_time(field, time)
        places, preliminary = _one_each(numbers, versions, path)
        axes = (tuple(field[axis].values.tolist()) for axis in ("latitude", "longitude"))
        months = tuple(numbers[place] for place in places)
        return MonthlyFile(path, months, places, preliminary, *axes)


def read_slabs(file: MonthlyFile) -> Iterator[Slab]:
    """The fields of a file, at most a year at a time.

    Raises:
        DataError: if it cannot be read, a month is empty, or values are no kelvin.
    """
    with open_file(file.path) as dataset:
        field = _field(dataset, file.path)
        time = _time_name(field, file.path)
        for start in range(0, len(file.places), MONTHS):
            months = file.months[start : start + MONTHS]
            part = field.isel({time: list(file.places[start : start + MONTHS])})
            try:
                kelvin, mixed = _merged(part, time)
            except (OSError, ValueError, KeyError, EOFError) as error:
                raise damaged(file.path, error) from error
            for month, values in zip(months, kelvin, strict=True):
                _require_kelvin(values, month, file.path)
            late = {month for month, other in zip(months, mixed, strict=True) if other}
            yield Slab(months, kelvin, frozenset(late) | file.preliminary & set(months))


def _field(dataset: xarray.Dataset, path: Path) -> xarray.DataArray:
    """The variable, with its time as a dimension and others of length one taken out."""
    if VARIABLE not in dataset:
        found = ", ".join(map(str, dataset.data_vars)) or "no variable"
        raise DataError(
            f"{path}: found {found}, expected the variable {VARIABLE}; download 'Sea surface "
            "temperature', and keep other files in another folder"
        )
    field = dataset[VARIABLE]
    units = field.attrs.get("units")
    if units not in _KELVIN:
        raise DataError(
            f"{path}: {VARIABLE} has units {units!r}, expected 'K'; take the file as it was "
            "downloaded"
        )
    for axis in ("latitude", "longitude"):
        if axis not in field.dims:
            raise DataError(
                f"{path}: {VARIABLE} has the dimensions {', '.join(map(str, field.dims))}, "
                f"expected one named {axis}; download it on ERA5's regular grid"
            )
    known = {"latitude", "longitude", *_TIMES}
    field = field.squeeze([d for d in field.dims if d not in known and field.sizes[d] == 1])
    if not any(name in field.dims for name in _TIMES):
        scalar = next((name for name in _TIMES if name in field.coords), None)
        field = field if scalar is None else field.expand_dims(scalar)
    other = [str(d) for d in field.dims if d not in known and d != "expver"]
    if other:
        raise DataError(
            f"{path}: {VARIABLE} has the dimension {', '.join(other)} as well, expected time, "
            "latitude and longitude; download the reanalysis, one field a month"
        )
    return field


def _time_name(field: xarray.DataArray, path: Path) -> str:
    name = next((name for name in _TIMES if name in field.dims), None)
    if name is None:
        raise DataError(
            f"{path}: {VARIABLE} has no dimension time or valid_time; download it again"
        )
    return name


def _month_numbers(times: NDArray[Any], path: Path) -> list[int]:
    if not np.issubdtype(times.dtype, np.datetime64) or np.isnat(times).any():
        raise DataError(
            f"{path}: the times are of type {times.dtype}, expected dates of the usual calendar; "
            "download the file again"
        )
    if len(times) == 0:
        raise DataError(f"{path}: holds no month at all; download it again")
    # Months of NumPy are counted from January 1970.
    return (times.astype("datetime64[M]").astype(int) + month_number(1970, 1)).tolist()


def _versions_beside_time(field: xarray.DataArray, time: str) -> list[int] | None:
    """``expver`` of each time, where it is told so."""
    if "expver" in field.dims or "expver" not in field.coords:
        return None
    values = np.broadcast_to(field["expver"].values, field.sizes[time])
    return [int(value) for value in values.tolist()]


def _one_each(
    numbers: Sequence[int], versions: list[int] | None, path: Path
) -> tuple[tuple[int, ...], frozenset[int]]:
    """The place of each month, and which months are preliminary.

    A month that stands twice, final and preliminary, is taken once: the final one.
    """
    kinds = versions or [_FINAL] * len(numbers)
    chosen: dict[int, int] = {}
    doubles: dict[int, None] = {}
    for place, number in enumerate(numbers):
        other = chosen.get(number)
        if other is None or kinds[place] < kinds[other]:
            chosen[number] = place
        elif kinds[place] == kinds[other]:
            doubles[number] = None
    if doubles:
        raise DataError(
            list_faults(
                f"{path}: months that stand more than once",
                [month_name(number) for number in doubles],
                "Expected one field a month: download 'Monthly averaged reanalysis', not the one "
                "by hour of day.",
                limit=_LISTED,
            )
        )
    order = list(chosen)
    if order != sorted(order):
        place = next(i for i, (a, b) in enumerate(pairwise(order)) if a > b)
        raise DataError(
            f"{path}: the times are out of order: {month_name(order[place])} stands before "
            f"{month_name(order[place + 1])}; sort the file by time, or download it again"
        )
    late = frozenset(n for n, place in chosen.items() if kinds[place] != _FINAL)
    return tuple(chosen.values()), late


def _merged(part: xarray.DataArray, time: str) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """(n, h, w) fields, and for each whether it is preliminary in a file that holds both."""
    if "expver" not in part.dims:
        fields = part.transpose(time, "latitude", "longitude").values.astype(np.float32)
        return fields, np.zeros(len(fields), bool)
    versions = [int(value) for value in part["expver"].values.tolist()]
    order = np.argsort(versions, kind="stable")
    stack = part.transpose("expver", time, "latitude", "longitude").values[order]
    fields = stack[0].astype(np.float32)
    mixed = np.isnan(fields).all(axis=(1, 2))
    for later in stack[1:]:
        fields = np.where(np.isnan(fields), later.astype(np.float32), fields)
    return fields, mixed


def _require_kelvin(values: NDArray[np.float32], month: int, path: Path) -> None:
    sea = values[~np.isnan(values)]
    if sea.size == 0:
        raise DataError(
            f"{path}: {month_name(month)} has no values at all; download this month again, or a "
            "region with sea"
        )
    low, high = float(sea.min()), float(sea.max())
    if low < _PLAUSIBLE_K[0] or high > _PLAUSIBLE_K[1]:
        raise DataError(
            f"{path}: {month_name(month)} has values from {low:g} to {high:g}, expected kelvin "
            f"({_PLAUSIBLE_K[0]:g} to {_PLAUSIBLE_K[1]:g}); take the file as it was downloaded"
        )


def _in_order(root: Path, files: list[MonthlyFile]) -> list[MonthlyFile]:
    """The files by time, if together they are one series on one grid."""
    files = sorted(files, key=lambda file: file.months[0])
    first = files[0]
    for file in files[1:]:
        for axis in ("latitudes", "longitudes"):
            if getattr(file, axis) != getattr(first, axis):
                raise DataError(
                    f"{file.path}: its {axis} are not those of {first.path}; download all years "
                    "with the same region and grid"
                )
    holder: dict[int, Path] = {}
    for file in files:
        twice = [month for month in file.months if month in holder]
        if twice:
            raise DataError(
                f"{file.path} and {holder[twice[0]]} overlap: both hold "
                f"{', '.join(map(month_name, twice[:_LISTED]))}"
                f"{f' and {len(twice) - _LISTED} more' if len(twice) > _LISTED else ''}; keep one "
                "of the files"
            )
        holder |= dict.fromkeys(file.months, file.path)
    for earlier, later in pairwise(files):
        if later.months[0] < earlier.months[-1]:
            raise DataError(
                f"{later.path} lies within a gap of {earlier.path}, expected files that follow one "
                "another; cut them at one month, or download them as one"
            )
    months = sorted(holder)
    absent = sorted(set(range(months[0], months[-1] + 1)) - set(months))
    if absent:
        raise DataError(
            list_faults(
                f"{root}: months missing between {month_name(months[0])} and "
                f"{month_name(months[-1])}",
                [month_name(month) for month in absent],
                "Download them, or take the files before or after the gap out of the folder.",
                limit=_LISTED,
            )
        )
    return files
