"""Monthly means of sea surface temperature and sea ice from downloaded files of ERA5.

Formats: NetCDF 3 and 4 (:mod:`vrtspike.sst.netcdf`) and GRIB (:mod:`vrtspike.sst.grib`), one file
or several, in any order. If a month has a final and a preliminary version, the final one is used.
Files are opened lazily and read in chunks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray

from vrtspike.sst.downloads import GRIB_SUFFIXES, ICE, PRODUCT, SST, find_files
from vrtspike.sst.grib import read_grib
from vrtspike.sst.months import month_name
from vrtspike.sst.netcdf import read_netcdf
from vrtspike.system.errors import DataError, first_few


def read_months(root: str | Path) -> xarray.Dataset:
    """Read the months of a download, in order; months that no file holds are absent.

    Args:
        root: a file, or a folder of files.

    Returns:
        lazy ``sst`` in kelvin, NaN over land, and ``siconc`` (0 to 1) if the files have it, by
        ``time`` (numbers of months, :mod:`vrtspike.sst.months`), latitude and longitude; beside
        the time are ``version`` (``expver``) and ``source`` (the file) of the temperature, and
        ``ice_source``, the file of the ice. The source of a variable is missing for a month without
        field.

    Raises:
        DataError: naming a file that cannot be used, with what was found and expected; or if the
            files do not fit together.
    """
    fields: list[xarray.DataArray] = []
    for path in find_files(root):
        read = read_grib if path.suffix.lower() in GRIB_SUFFIXES else read_netcdf
        fields += read(path)
    parts = {name: [field for field in fields if field.name == name] for name in (SST, ICE)}
    if not parts[SST]:
        raise DataError(f"{root}: found no file with the variable {SST}; download {PRODUCT}")
    _require_same_grid(fields)
    series = [_series(parts[SST])]
    if parts[ICE]:
        series.append(_series(parts[ICE]).drop_vars("version").rename(source="ice_source"))
    return xarray.merge(series, join="outer")


def check_download(root: Path) -> tuple[str, list[str]]:
    """Describe the months of a download, and those that are missing.

    Returns:
        a line on the months; and a sentence for each variable of which months are missing: place,
        what was found, what was expected, what to do. Ice is missing only if there is some.

    Raises:
        DataError: as :func:`read_months`.
    """
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


def _require_same_grid(fields: list[xarray.DataArray]) -> None:
    """Check that all fields have the latitudes and longitudes of the first."""
    first = fields[0]
    for field in fields[1:]:
        if any(not np.array_equal(field[axis], first[axis]) for axis in ("latitude", "longitude")):
            raise DataError(
                f"{field.source.values[0]}: its latitudes and longitudes are not those of "
                f"{first.source.values[0]}; download all files with the same region and grid"
            )


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
