"""Completeness of a download of ERA5: its months, and those that are missing."""

from __future__ import annotations

from pathlib import Path

from vrtspike.sst.settings import DOWNLOAD_SUFFIXES, ICE, SST, month_name
from vrtspike.system.errors import first_few


def is_download(root: Path) -> bool:
    """Return whether a folder holds files with the suffixes of NetCDF or GRIB."""
    return root.is_dir() and any(
        path.suffix.lower() in DOWNLOAD_SUFFIXES for path in root.iterdir()
    )


def check_download(root: Path) -> tuple[str, list[str]]:
    """Describe the months of a download, and those that are missing.

    Returns:
        a line on the months; and a sentence for each variable of which months are missing: place,
        what was found, what was expected, what to do. Ice is missing only if there is some.

    Raises:
        DataError: as :func:`vrtspike.sst.reading.read_months`.
    """
    from vrtspike.sst.reading import read_months

    dataset = read_months(root)
    temperatures = {int(month) for month in dataset["source"].dropna("time")["time"]}
    first, last = min(temperatures), max(temperatures)
    span = f"{month_name(first)} to {month_name(last)}"
    missing = {SST: {*range(first, last + 1)} - temperatures}
    if ICE in dataset:
        ice = {int(month) for month in dataset["ice_source"].dropna("time")["time"]}
        missing[ICE] = temperatures - ice
    faults = []
    for name, months in missing.items():
        if months:
            names = first_few([month_name(month) for month in sorted(months)])
            faults.append(
                f"{root}: found no {name} of {len(months)} months ({names}), expected every month "
                f"from {span}; download them"
            )
    with_ice = "with" if ICE in dataset else "without"
    return f"months: {span}, {with_ice} sea ice", faults
