"""Completeness of a download of ERA5: its months, and those that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vrtspike.sst.settings import ICE, SST, SUFFIXES, month_name
from vrtspike.system.errors import first_few


@dataclass(frozen=True)
class Months:
    """Months of a download.

    Attributes:
        first: number of the first month with temperatures.
        last: number of the last one.
        missing: months of temperatures in between that no file holds.
        has_ice: true if concentrations of sea ice are there.
        without_ice: months of temperatures without ice, if there is any ice.
    """

    first: int
    last: int
    missing: Sequence[int]
    has_ice: bool
    without_ice: Sequence[int]


def is_download(root: Path) -> bool:
    """Return whether a folder holds files with the suffixes of NetCDF or GRIB."""
    return root.is_dir() and any(path.suffix.lower() in SUFFIXES for path in root.iterdir())


def read_download(root: Path) -> Months:
    """List the months of a download.

    Raises:
        DataError: as :func:`vrtspike.sst.reading.read_months`.
    """
    from vrtspike.sst.reading import read_months

    dataset = read_months(root)
    temperatures = _months_with(dataset["source"].dropna("time")["time"].values.tolist())
    first, last = min(temperatures), max(temperatures)
    missing = [month for month in range(first, last + 1) if month not in temperatures]
    without_ice: list[int] = []
    has_ice = ICE in dataset
    if has_ice:
        ice = _months_with(dataset["ice_source"].dropna("time")["time"].values.tolist())
        without_ice = sorted(temperatures - ice)
    return Months(first, last, missing, has_ice, without_ice)


def _months_with(numbers: Sequence[int]) -> set[int]:
    return {int(number) for number in numbers}


def missing_months(months: Months, root: Path) -> list[str]:
    """Describe the missing months of a download.

    Returns:
        a sentence for each variable: place, what was found, what was expected, what to do.
    """
    faults = []
    for name, missing in ((SST, months.missing), (ICE, months.without_ice)):
        if missing:
            names = first_few([month_name(number) for number in missing])
            faults.append(
                f"{root}: found no {name} of {len(missing)} months ({names}), expected every month "
                f"from {month_name(months.first)} to {month_name(months.last)}; download them"
            )
    return faults
