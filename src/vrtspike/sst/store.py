"""From downloaded files to the prepared data of one region at one resolution: a NetCDF file.

=============== =========== ======= ==========================================================
array           shape       type    contents
=============== =========== ======= ==========================================================
``time``        (N,)        int64   numbers of the months (:mod:`vrtspike.sst.settings`), no gap
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

Climatology, deviation and trend come from the training years alone, so that nothing of what a model
is judged by enters what it reads. They are of open sea alone, and a cell counts as such in a
calendar month only if it was so in half of the training years. The manifest beside it
(``<name>.json``) says which months, years, region and files these are, and holds the digest of the
contents, which does not depend on chunks, compression or versions of libraries.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from numpy.typing import NDArray

from vrtspike.io.files import atomic_path, json_digest, write_json
from vrtspike.io.locks import locked
from vrtspike.io.manifests import file_entry, read_manifest
from vrtspike.sst.consistency import ICE_SHARE, check_months
from vrtspike.sst.grid import CELLS, Area, Grid
from vrtspike.sst.reading import find_files, read_months
from vrtspike.sst.settings import FINAL, ICE, MONTHS, PREPARED, SST, Years, month_name, years_within
from vrtspike.system.errors import DataError

ICE_LIMIT_K = 271.6
"""In files without concentration, colder sea counts as covered: ERA5 has 271.46 under ice."""
DEVIATION_FLOOR_K = 0.1
"""Least standard deviation in kelvin: divided by less, rounding would outweigh the tropics."""
IN_MEMORY_BYTES = 500_000_000
"""Arrays up to this size are computed with, and trained from, as a whole; larger ones by chunks."""


def prepare(
    root: str | Path,
    area: Area,
    resolution: float,
    output: str | Path,
    years: Years | None = None,
) -> PreparedStore:
    """Read a download and write the data of one region at one resolution, and their manifest.

    The arrays stand beside the manifest, ``<name>.nc``, and are complete before the manifest
    appears. Some years of fields are held in memory at a time.

    Args:
        root: a file, or a folder of files, as ERA5 delivers them.
        area: the region.
        resolution: degrees of a cell, any that the files' steps are not coarser than.
        output: the manifest to write, ``<name>.json``.
        years: of the splits, see :func:`~vrtspike.sst.settings.years_within`.

    Raises:
        DataError: if the files cannot be used, do not hold these years, or the region has no sea.
        ConfigError: if the region is no whole number of cells high and wide.
    """
    output, grid = Path(output), Grid(area, resolution)
    fields = read_months(root)
    first, last = (int(fields.time[place]) for place in (0, -1))
    years = years_within(years, first, last, str(root))
    cells = xarray.Dataset({name: grid.means(fields[name], str(root)) for name in fields})
    cells = cells.astype(np.float32).reindex(time=np.arange(first, last + 1))
    header = {
        "area": asdict(area),
        "resolution": grid.resolution,
        "years": years.model_dump(mode="json"),
        "first_month": first,
        "months": last - first + 1,
    }
    with atomic_path(output.with_suffix(".nc")) as temporary:
        _write(temporary, cells.chunk(time=MONTHS))
        with _opened(temporary) as stored:
            sources = fields.drop_vars([SST, ICE], errors="ignore").reindex(time=stored.time)
            for note in check_months(stored, sources, area):
                print(f"{root}: {note}")
            fitted, present = _fitted(stored, years, f"{root}: area {area.name}")
            digest = contents_digest(header, stored.merge(fitted))
        _write(temporary, fitted)
    preliminary = fields.version.notnull() & (fields.version != FINAL)
    write_json(
        output,
        {
            "schema": PREPARED.schema,
            **header,
            "sea_cells": int(fitted["sea"].sum()),
            "files": [file_entry(path.parent, path.name) for path in find_files(root)],
            "preliminary": [month_name(int(n)) for n in fields.time[preliminary]],
            "missing": [month_name(first + int(n)) for n in np.flatnonzero(~present)],
            "ice": ICE if ICE in fields else f"{SST} below {ICE_LIMIT_K} K",
            "digest": digest,
        },
    )
    return PreparedStore(output)


def prepared_store(
    root: str | Path,
    area: Area,
    resolution: float,
    years: Years | None = None,
    folder: str | Path | None = None,
) -> PreparedStore:
    """The store of a region at a resolution; it is prepared if the files are new or changed.

    Other files, regions, resolutions or years make another store; none is removed. Processes that
    ask at the same time wait for the one that prepares.

    Args:
        root: a file, or a folder of files, as ERA5 delivers them.
        area: the region.
        resolution: degrees of a cell.
        years: the splits; None divides the whole years that there are.
        folder: where stores stand; None: ``prepared`` in the folder of the files.

    Raises:
        UserError: as :func:`prepare`.
    """
    files = find_files(root)
    folder = Path(folder) if folder is not None else files[0].parent / "prepared"
    present = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    asked = [asdict(area), float(resolution), years and years.model_dump(mode="json")]
    digest = json_digest([present, asked, PREPARED.schema])
    output = folder / f"{resolution:g}deg-{digest[:12]}.json"
    with locked(output.with_suffix(".lock")):
        if not (output.is_file() and output.with_suffix(".nc").is_file()):
            print(f"preparing {output}: {area.name} at {resolution:g} degrees from {root}")
            prepare(root, area, resolution, output, years)
    return PreparedStore(output)


def contents_digest(header: Mapping[str, Any], fields: xarray.Dataset) -> str:
    """SHA-256 of where and when the cells are and of all arrays, decoded, year by year.

    The region's name and description do not count.
    """
    edges = {key: header["area"][key] for key in ("lon", "lat")}
    digest = hashlib.sha256(json_digest({**header, "area": edges}).encode())
    for name, field in sorted(fields.items()):
        digest.update(f"{name} {field.dtype} {field.shape}".encode())
        for start in range(0, len(field), MONTHS):
            digest.update(field[start : start + MONTHS].values.tobytes())
    return digest.hexdigest()


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
            self.fields = _opened(self.file)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"{self.file}: cannot be read ({error}); delete it and prepare it again"
            ) from error

    def __reduce__(self) -> tuple[type[PreparedStore], tuple[Path]]:
        """Without the arrays: a worker process opens its own."""
        return PreparedStore, (self.path,)

    @cached_property
    def anomalies(self) -> xarray.DataArray:
        """(time, row, column) kelvin about the climatology, NaN but for open sea; lazy if large."""
        return _open_sea(self.fields) - self.of_month("climatology", self.fields["time"])

    @cached_property
    def standardised(self) -> xarray.DataArray:
        """:attr:`anomalies` by the deviation of their calendar months."""
        return self.anomalies / self.of_month("deviation", self.fields["time"])

    def of_month(self, name: str, months: xarray.DataArray) -> xarray.DataArray:
        """Climatology or deviation of the calendar months of some months (their numbers)."""
        return self.fields[name].isel(month=months % MONTHS)

    @property
    def weights(self) -> xarray.DataArray:
        """(row, column) shares of the sea's area; 0 on land, 1 in all."""
        areas = self.fields["sea"] * self.grid.shares(self.grid.area)
        return areas / areas.sum()

    @property
    def placement(self) -> dict[str, NDArray[Any]]:
        """Coordinates of the cells: ``sea`` (H, W), latitudes (H,) and longitudes (W,)."""
        where = {"latitudes": self.grid.latitudes, "longitudes": self.grid.longitudes}
        return {"sea": self.fields["sea"].values, **where}


def _opened(path: Path) -> xarray.Dataset:
    chunks = {"time": MONTHS, "month": MONTHS}
    found = xarray.open_dataset(path, engine="h5netcdf", chunks=chunks)
    return found.load() if found.nbytes <= IN_MEMORY_BYTES else found


def _write(path: Path, fields: xarray.Dataset) -> None:
    """Write fields into a file, beside those that are there."""
    # By the month, as samples are read; a checksum makes damage an error.
    chunks = {name: (1, *f.shape[1:]) if f.ndim == 3 else f.shape for name, f in fields.items()}
    kept = {"zlib": True, "complevel": 1, "fletcher32": True}
    encoding = {name: {**kept, "chunksizes": sizes} for name, sizes in chunks.items()}
    fields.to_netcdf(path, mode="a", engine="h5netcdf", encoding=encoding)


def _open_sea(fields: xarray.Dataset) -> xarray.DataArray:
    """Temperatures of the sea without those under ice."""
    sst = fields[SST]
    is_open = fields[ICE] < ICE_SHARE if ICE in fields else sst >= ICE_LIMIT_K
    return sst.where(fields["sea"] & is_open)


def _fitted(
    stored: xarray.Dataset, years: Years, title: str
) -> tuple[xarray.Dataset, NDArray[np.bool_]]:
    """Climatology, anomalies and masks, computed from the cells' temperatures.

    Returns:
        which cells are sea, climatology, deviation and trend of the training years; and in which
        months every variable has a value.

    Raises:
        DataError: naming the data, if there is no sea.
    """
    known = stored[SST].notnull()
    present = stored.notnull().any(CELLS).to_array().all("variable").compute()
    sea = ((known | ~present).all("time") & known.any("time")).compute()
    if not sea.any():
        raise DataError(
            f"{title} has no cell that is sea by half or more in every month; choose a region with "
            "sea or a finer resolution"
        )
    months = xarray.Dataset({"sst": _open_sea(stored.assign(sea=sea)), "present": present})
    train = months.sel(time=years.months("train"))
    train = train.coarsen(time=MONTHS).construct(time=("year", "month"))
    enough = train["sst"].count("year") >= np.maximum(train["present"].sum("year") / 2, 2)
    climatology = train["sst"].mean("year").where(enough).compute()
    anomaly = train["sst"] - climatology
    deviation = (anomaly**2).mean("year") ** 0.5
    # The line of least squares: the mean of the anomalies is 0, so it is 0 in the middle.
    along, time = ["year", "month"], train["time"].where(anomaly.notnull())
    trend = MONTHS * xarray.cov(time, anomaly, along) / time.var(along, ddof=1)
    fitted = {
        "climatology": climatology,
        "deviation": deviation.clip(min=DEVIATION_FLOOR_K).fillna(1),
        "trend": trend.fillna(0),
        "middle": time.mean(along).fillna(0),
    }
    arrays = xarray.Dataset(fitted).compute().astype(np.float32).assign(sea=sea)
    return arrays, present.values
