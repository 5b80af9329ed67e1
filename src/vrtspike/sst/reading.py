"""Monthly means of sea surface temperature and sea ice out of files as ERA5 delivers them.

Understood are NetCDF 3 and 4 and GRIB, one file or several, in any order; the dimension ``time`` or
``valid_time``; packed numbers; and ``expver``, by which the files tell final months (1) from
preliminary ones (5, "ERA5T"): as a dimension, as a value beside the time, or not at all. Where a
month is there in both, the final one is taken. Everything is opened lazily and read in chunks.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrtspike.errors import DataError
from vrtspike.sst.settings import MONTHS, month_name

if TYPE_CHECKING:
    import xarray

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
    entries = sorted(root.iterdir()) if root.is_dir() else []
    found = [path for path in entries if path.suffix.lower() in SUFFIXES and path.is_file()]
    if not found:
        what = f"no file *{', *'.join(SUFFIXES)}" if root.is_dir() else "no such folder or file"
        raise DataError(
            f"{root}: {what}; expected the NetCDF or GRIB files of {_PRODUCT}, one or one per "
            "year. Download them there, or let vrtspike.sst.generate write some to try things out"
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
    import xarray

    fields = [field for path in find_files(root) for field in _read_file(path)]
    for field in fields[1:]:
        if any(not np.array_equal(field[axis], fields[0][axis]) for axis in _AXES):
            raise DataError(
                f"{field.source.values[0]}: its latitudes and longitudes are not those of "
                f"{fields[0].source.values[0]}; download all files with the same region and grid"
            )
    parts = {name: [field for field in fields if field.name == name] for name in (SST, ICE)}
    if not parts[SST]:
        raise DataError(f"{root}: found no file with the variable {SST}; download {_PRODUCT}")
    sst = _series(parts[SST])
    if not parts[ICE]:
        return sst.to_dataset()
    ice = _series(parts[ICE])
    if absent := sorted({*sst.time.values.tolist()} - {*ice.time.values.tolist()}):
        raise DataError(
            f"{root}: {ICE} is missing in {_listed(absent)}, but {SST} is there; download both "
            "variables for the same months, or take the files of one out of the folder"
        )
    beside = ice.sel(time=sst.time).drop_vars(["version", "source"])
    return xarray.Dataset({SST: sst, ICE: beside})


def _read_file(path: Path) -> list[xarray.DataArray]:
    """The variables of a file by (time, latitude, longitude), with ``version`` and ``source``."""
    import xarray

    options: dict[str, Any] = {}
    if path.suffix.lower() in _GRIB:
        # cfgrib would write an index beside the file, where a user may not.
        kept = {"indexpath": "", "read_keys": ["expver"]}
        options = {"engine": "cfgrib", "backend_kwargs": kept}
    try:
        # Nothing is read yet; packed values become numbers when they are.
        opened = xarray.open_dataset(path, chunks={}, **options)
    except (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError) as error:
        raise DataError(
            f"{path}: cannot be read ({str(error).splitlines()[0]}); expected NetCDF, or GRIB with "
            "the package cfgrib (pip install 'vrtspike[grib]'): unpack a zip archive, download a "
            "damaged file again, take another one out"
        ) from error
    found = [_normal(opened[name], path) for name in (SST, ICE) if name in opened]
    if not found:
        names = ", ".join(map(str, opened.data_vars)) or "no variable"
        raise DataError(
            f"{path}: found {names}, expected the variable {SST}; download 'Sea surface "
            "temperature', and keep other files in another folder"
        )
    return found


def _normal(field: xarray.DataArray, path: Path) -> xarray.DataArray:
    """A variable by the numbers of its months, whatever its file calls time and version."""
    import xarray

    name = str(field.name)
    units = field.attrs.get("units", field.attrs.get("GRIB_units"))
    if units not in _UNITS[name]:
        raise DataError(
            f"{path}: {name} has units {units!r}, expected {_UNITS[name][0]!r}; take the file as "
            "it was downloaded"
        )
    known = {*_AXES, *_TIMES, "expver"}
    field = field.squeeze([d for d in field.dims if d not in known and field.sizes[d] == 1])
    time = next((t for t in (*field.dims, *field.coords) if t in _TIMES), _TIMES[0])
    if time in field.coords and time not in field.dims:
        field = field.expand_dims(time)
    if {*field.dims} - {"expver"} != {time, *_AXES}:
        raise DataError(
            f"{path}: {name} has the dimensions {', '.join(map(str, field.dims))}, expected time "
            "or valid_time, latitude and longitude; download the reanalysis on its regular grid, "
            "one field a month"
        )
    times = field[time]
    if not times.size or not hasattr(times, "dt") or times.isnull().any():
        raise DataError(
            f"{path}: found {times.size} times of type {times.dtype}, expected dates; download the "
            "file again"
        )
    months = MONTHS * times.dt.year + times.dt.month - 1
    version = field.coords.get("expver", xarray.DataArray(FINAL)).astype(int)
    months, version = xarray.broadcast(months, version)
    field = field.drop_vars([each for each in field.coords if each not in _AXES])
    field = field.chunk({time: MONTHS, **dict.fromkeys(_AXES, -1)})
    field = field.assign_coords(month=months.variable, version=version.variable)
    field = field.stack(step=months.dims, create_index=False)
    if len(months.dims) > 1:
        # Each month stands in one of the versions and is missing in the others.
        field = field[{"step": field.notnull().any(_AXES).values}]
    source = ("step", [str(path)] * field.sizes["step"])
    field = field.assign_coords(source=source).swap_dims(step="month").rename(month="time")
    return field.transpose("time", *_AXES)


def _series(parts: list[xarray.DataArray]) -> xarray.DataArray:
    """Parts of one variable, joined by time; of each month the final version where there is one."""
    import xarray

    joined = xarray.concat(parts, "time", join="override").sortby(["time", "version"])
    steps = np.diff([joined.time, joined.version])
    again = np.flatnonzero((steps == 0).all(axis=0))
    if again.size:
        files = dict.fromkeys(joined.source.values[again[0] : again[0] + 2].tolist())
        raise DataError(
            f"{' and '.join(files)}: {joined.name} of the same month stands more than once: "
            f"{_listed(joined.time.values[again].tolist())}; expected one field a month: keep one "
            "of the files, and download 'Monthly averaged reanalysis', not the one by hour of day"
        )
    return joined.drop_duplicates("time")


def _listed(months: list[int]) -> str:
    """The names of some months, the first of many."""
    more = f" and {len(months) - 8} more" if len(months) > 8 else ""
    return ", ".join(map(month_name, months[:8])) + more
