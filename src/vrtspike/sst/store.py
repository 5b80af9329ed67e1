"""The prepared data of one region at one resolution: a NetCDF file.

=============== =========== ======= ==========================================================
array           shape       type    contents
=============== =========== ======= ==========================================================
``time``        (N,)        int64   numbers of the months (:mod:`vrtspike.sst.months`), no gap
``sst``         (N, H, W)   float32 kelvin; NaN on land and in months that no file holds
``siconc``      (N, H, W)   float32 share of the sea that is ice, where the files have it
``sea``         (H, W)      bool    true where there is sea in every month
``climatology`` (12, H, W)  float32 mean of each calendar month over the training years, kelvin;
                                    NaN where the cell was open sea in less than half of them, or
                                    in one alone: it is then masked in that calendar month
``deviation``   (12, H, W)  float32 standard deviation of the same months about it, kelvin
``trend``       (H, W)      float32 linear trend of the training years' anomalies, kelvin a year
``middle``      (H, W)      float32 the month at which the line of the trend is 0
=============== =========== ======= ==========================================================

Climatology, deviation and trend come from the training years alone, so that no data of validation
or test enter what a model reads. These statistics cover open sea only. A cell counts as open sea in
a calendar month if it was open in half of the training years. The manifest next to it
(``<name>.json``) says which months, years, region and files these are, and holds the digest of the
contents, which does not depend on chunks, compression or versions of libraries.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import xarray
from numpy.typing import NDArray

from vrtspike.io.manifests import read_manifest
from vrtspike.sst.consistency import ICE_SHARE
from vrtspike.sst.downloads import ICE, SST
from vrtspike.sst.grid import Area, Grid
from vrtspike.sst.months import MONTHS
from vrtspike.sst.settings import PREPARED, Years
from vrtspike.system.errors import DataError

ICE_LIMIT_K = 271.6
"""Temperature below which sea counts as covered in files without concentration.

Under ice ERA5 has 271.46 K.
"""
IN_MEMORY_BYTES = 500_000_000
"""Arrays up to this size are computed with, and trained from, as a whole; larger ones by chunks."""


class PreparedStore:
    """Prepared data, opened for reading.

    Args:
        manifest: the manifest's path, ``<name>.json``.

    Raises:
        DataError: if it is missing or of another version, or its arrays are missing or damaged.

    Attributes:
        fields: the arrays, small ones as a whole, large ones read by chunks when computed.
    """

    def __init__(self, manifest: str | os.PathLike[str]) -> None:
        self.path = Path(manifest)
        self.manifest = read_manifest(self.path, PREPARED)
        self.grid = Grid(Area(**self.manifest["area"]), self.manifest["resolution"])
        self.years = Years(**self.manifest["years"])
        self.first_month = int(self.manifest["first_month"])
        self.file = self.path.with_suffix(".nc")
        self.digest = str(self.manifest["digest"])
        try:
            self.fields = open_fields(self.file)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"{self.file}: cannot be read ({error}); delete it and prepare it again"
            ) from error

    def __reduce__(self) -> tuple[type[PreparedStore], tuple[Path]]:
        """Pickle without the arrays: a worker process opens its own."""
        return PreparedStore, (self.path,)

    @cached_property
    def anomalies(self) -> xarray.DataArray:
        """(time, row, column) kelvin about the climatology, NaN but for open sea; lazy if large."""
        climatology = self.of_month("climatology", self.fields["time"])
        return open_sea(self.fields) - climatology

    @cached_property
    def standardized(self) -> xarray.DataArray:
        """:attr:`anomalies` by the deviation of their calendar months."""
        return self.anomalies / self.of_month("deviation", self.fields["time"])

    def of_month(self, name: str, months: xarray.DataArray) -> xarray.DataArray:
        """Return the climatology or deviation of the calendar months of month numbers."""
        return self.fields[name].isel(month=months % MONTHS)

    @property
    def weights(self) -> xarray.DataArray:
        """(row, column) shares of the sea's area; 0 on land, 1 in all."""
        areas = self.fields["sea"] * self.grid.shares(self.grid.area)
        return areas / areas.sum()

    @property
    def placement(self) -> dict[str, NDArray[Any]]:
        """The grid: ``sea`` (H, W), true for sea, ``latitudes`` (H,) and ``longitudes`` (W,)."""
        return {
            "sea": self.fields["sea"].values,
            "latitudes": self.grid.latitudes,
            "longitudes": self.grid.longitudes,
        }


def open_fields(path: Path) -> xarray.Dataset:
    """Open the arrays of a store: in memory if they are small, else by chunks of a year."""
    chunks = {"time": MONTHS, "month": MONTHS}
    fields = xarray.open_dataset(path, engine="h5netcdf", chunks=chunks)
    if fields.nbytes <= IN_MEMORY_BYTES:
        return fields.load()
    return fields


def open_sea(fields: xarray.Dataset) -> xarray.DataArray:
    """Return the temperatures of the sea; NaN on land and under ice."""
    sst = fields[SST]
    is_open = fields[ICE] < ICE_SHARE if ICE in fields else sst >= ICE_LIMIT_K
    return sst.where(fields["sea"] & is_open)
