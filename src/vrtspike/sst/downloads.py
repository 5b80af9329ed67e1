"""Downloads of ERA5: their files and variables."""

from __future__ import annotations

from pathlib import Path

from vrtspike.system.errors import DataError

SST, ICE = "sst", "siconc"
"""Variables of the files."""
GRIB_SUFFIXES = (".grib", ".grib2", ".grb", ".grb2")
DOWNLOAD_SUFFIXES = (".nc", ".nc4", ".netcdf", *GRIB_SUFFIXES)
"""Suffixes of downloaded files, in small letters."""
FINAL = 1
"""``expver`` of final months."""
PRODUCT = "'ERA5 monthly averaged data on single levels', variable 'Sea surface temperature'"
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
            f"GRIB of {PRODUCT}, one or one per year: download them, or see DATA.GENERATE"
        )
    return files


def _is_apple_double(path: Path) -> bool:
    if not path.name.startswith("._"):
        return False
    with path.open("rb") as stream:
        return stream.read(len(_APPLE_DOUBLE)) == _APPLE_DOUBLE


def is_download(root: Path) -> bool:
    """Return whether a folder holds files with the suffixes of NetCDF or GRIB."""
    return root.is_dir() and any(
        path.suffix.lower() in DOWNLOAD_SUFFIXES for path in root.iterdir()
    )
