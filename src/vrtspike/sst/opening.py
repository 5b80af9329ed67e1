"""Opening a downloaded file with the library that reads its format."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.errors import DataError

if TYPE_CHECKING:
    import xarray

SUFFIXES = (".nc", ".nc4", ".netcdf", ".grib", ".grib2", ".grb", ".grb2")
_ENGINES = {b"\x89HDF": "h5netcdf", b"CDF\x01": "scipy", b"CDF\x02": "scipy", b"GRIB": "cfgrib"}
"""What reads a file, by its first four bytes: NetCDF 4, NetCDF 3 (older downloads), GRIB."""
_PRODUCT = "'ERA5 monthly averaged data on single levels', variable 'Sea surface temperature'"


def find_files(root: str | Path) -> list[Path]:
    """The files of a download: the file itself, or all files in a folder, by name.

    Raises:
        DataError: if there is none.
    """
    root = Path(root)
    if root.is_file():
        return [root]
    found = sorted(path for path in _entries(root) if path.suffix.lower() in SUFFIXES)
    if not found:
        what = f"no file *{', *'.join(SUFFIXES)}" if root.is_dir() else "no such folder or file"
        raise DataError(
            f"{root}: {what}; expected the NetCDF or GRIB files of {_PRODUCT}, one or one per "
            "year. Download them there, or let vrtspike.sst.generate write some to try things out"
        )
    return found


def _entries(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if path.is_file()] if root.is_dir() else []


def open_file(path: Path) -> xarray.Dataset:
    """Open a NetCDF or GRIB file; nothing is read yet, packed values become numbers when they are.

    Raises:
        DataError: if it is neither, is damaged, or needs a package that is not installed.
    """
    # Imported here: planning and training do without it.
    import xarray

    engine = _engine(path)
    # cfgrib would write an index beside the file, where a user may not.
    options = {"backend_kwargs": {"indexpath": ""}} if engine == "cfgrib" else {}
    try:
        return xarray.open_dataset(path, engine=engine, **options)  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> DataError:
    """The error of a file that its library cannot read."""
    return DataError(f"{path}: cannot be read ({error}); download it again")


def _engine(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            head = stream.read(4)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    if head.startswith(b"PK"):
        raise DataError(f"{path}: found a zip archive, expected NetCDF or GRIB; unpack it")
    engine = _ENGINES.get(head)
    if engine is None:
        raise DataError(
            f"{path}: found a file that begins with {head!r}, expected NetCDF or GRIB; download it "
            "again, or take files that are something else out of the folder"
        )
    if engine == "cfgrib" and find_spec("cfgrib") is None:
        raise DataError(
            f"{path}: GRIB is read with the package cfgrib, which is not installed; install it "
            "(pip install cfgrib), or download the data as NetCDF"
        )
    return engine
