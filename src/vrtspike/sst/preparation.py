"""From downloaded files to the prepared data of one region at one resolution."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from vrtspike.io.files import atomic_path, json_digest, write_json
from vrtspike.io.locks import locked
from vrtspike.io.manifests import file_entry
from vrtspike.sst.consistency import check_months
from vrtspike.sst.downloads import FINAL, ICE, SST, find_files
from vrtspike.sst.grid import CELLS, Area, Grid
from vrtspike.sst.months import MONTHS, month_name
from vrtspike.sst.reading import read_months
from vrtspike.sst.settings import PREPARED, Years, years_within
from vrtspike.sst.store import ICE_LIMIT_K, PreparedStore, open_fields, open_sea
from vrtspike.system.errors import DataError

DEVIATION_FLOOR_K = 0.1
"""Minimum standard deviation in kelvin: division by a smaller one would amplify rounding errors."""


def prepare(
    root: str | Path,
    area: Area,
    resolution: float,
    output: str | Path,
    years: Years | None = None,
    *,
    show: Callable[[str], None] = print,
) -> PreparedStore:
    """Read a download and write the data of one region at one resolution, and their manifest.

    The arrays are next to the manifest, ``<name>.nc``, and are complete before the manifest
    appears. Only some years of fields are in memory at a time.

    Args:
        root: a file, or a folder of files, as ERA5 delivers them.
        area: region to prepare.
        resolution: degrees of a cell, any that the files' steps are not coarser than.
        output: the manifest to write, ``<name>.json``.
        years: years of the splits, see :func:`~vrtspike.sst.settings.years_within`.
        show: function called with a line for each finding about the months.

    Raises:
        DataError: if the files cannot be used, do not hold these years, or the region has no sea.
        ConfigError: if the region is not a whole number of cells high and wide.
    """
    output = Path(output)
    grid = Grid(area, resolution)
    fields = read_months(root)
    first = int(fields.time[0])
    last = int(fields.time[-1])
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
        with open_fields(temporary) as stored:
            sources = fields.drop_vars([SST, ICE], errors="ignore").reindex(time=stored.time)
            for note in check_months(stored, sources, area):
                show(f"{root}: {note}")
            present = stored.notnull().any(CELLS).to_array().all("variable").compute()
            fitted = _fit(stored, present, years, f"{root}: area {area.name}")
            digest = store_digest(header, stored.merge(fitted))
        _write(temporary, fitted)
    preliminary = fields.version.notnull() & (fields.version != FINAL)
    manifest = {
        "schema": PREPARED.schema,
        **header,
        "sea_cells": int(fitted["sea"].sum()),
        "missing": [month_name(first + int(n)) for n in np.flatnonzero(~present.values)],
        "files": [file_entry(path.parent, path.name) for path in find_files(root)],
        "preliminary": [month_name(int(n)) for n in fields.time[preliminary]],
        "ice": ICE if ICE in fields else f"{SST} below {ICE_LIMIT_K} K",
        "digest": digest,
    }
    write_json(output, manifest)
    return PreparedStore(output)


def prepared_store(
    root: str | Path,
    area: Area,
    resolution: float,
    years: Years | None = None,
    folder: str | Path | None = None,
) -> PreparedStore:
    """Return the store of a region at a resolution; prepare it if the files are new or changed.

    A change of files, region, resolution or years makes another store; none is removed. A single
    process prepares a store, and the others wait for it.

    Args:
        root: a file, or a folder of files, as ERA5 delivers them.
        area: region of the store.
        resolution: degrees of a cell.
        years: the splits; None divides the whole years of the files.
        folder: folder of the stores; None: ``prepared`` in the folder of the files.

    Raises:
        UserError: as :func:`prepare`.
    """
    files = find_files(root)
    folder = Path(folder) if folder is not None else files[0].parent / "prepared"
    versions = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    splits = None if years is None else years.model_dump(mode="json")
    parameters = [asdict(area), float(resolution), splits]
    digest = json_digest([versions, parameters, PREPARED.schema])
    output = folder / f"{resolution:g}deg-{digest[:12]}.json"
    # A finished store needs no lock: its folder may be read-only.
    if _is_prepared(output):
        return PreparedStore(output)
    with locked(output.with_suffix(".lock")):
        if not _is_prepared(output):
            print(f"preparing {output}: {area.name} at {resolution:g} degrees from {root}")
            prepare(root, area, resolution, output, years)
    return PreparedStore(output)


def _is_prepared(output: Path) -> bool:
    """Return whether a manifest and its arrays exist."""
    return output.is_file() and output.with_suffix(".nc").is_file()


def store_digest(header: Mapping[str, Any], fields: xarray.Dataset) -> str:
    """Return the SHA-256 of the cells' places, the months and all arrays, decoded, year by year.

    The region's name and description do not count.
    """
    edges = {key: header["area"][key] for key in ("lon", "lat")}
    digest = hashlib.sha256(json_digest({**header, "area": edges}).encode())
    for name, field in sorted(fields.items()):
        digest.update(f"{name} {field.dtype} {field.shape}".encode())
        for start in range(0, len(field), MONTHS):
            digest.update(field[start : start + MONTHS].values.tobytes())
    return digest.hexdigest()


def _write(path: Path, fields: xarray.Dataset) -> None:
    """Add fields to a file."""
    encoding = {}
    for name, field in fields.items():
        # Chunks of one month, as samples are read.
        chunks = (1, *field.shape[1:]) if field.ndim == 3 else field.shape
        encoding[name] = {
            "zlib": True,
            "complevel": 1,
            "fletcher32": True,  # with a checksum, damage is an error in reading
            "chunksizes": chunks,
        }
    fields.to_netcdf(path, mode="a", engine="h5netcdf", encoding=encoding)


def _sea(stored: xarray.Dataset, present: xarray.DataArray, title: str) -> xarray.DataArray:
    """Return a mask (row, column): true where every present month has a temperature.

    Raises:
        DataError: naming the data, if there is no sea.
    """
    has_value = stored[SST].notnull()
    sea = ((has_value | ~present).all("time") & has_value.any("time")).compute()
    if not sea.any():
        raise DataError(
            f"{title} has no cell that is sea by half or more in every month; choose a region with "
            "sea or a finer resolution"
        )
    return sea


def _fit(
    stored: xarray.Dataset, present: xarray.DataArray, years: Years, title: str
) -> xarray.Dataset:
    """Fit sea mask, climatology, deviation and trend to the training years.

    Args:
        stored: temperatures, and ice if there is any, by (time, row, column).
        present: (time,) true where every variable has a value.
        years: first and last year of each split.
        title: title of the data, for messages.

    Raises:
        DataError: if there is no sea.
    """
    sea = _sea(stored, present, title)
    months = xarray.Dataset({"sst": open_sea(stored.assign(sea=sea)), "present": present})
    train = months.sel(time=years.months("train"))
    train = train.coarsen(time=MONTHS).construct(time=("year", "month"))
    min_years = np.maximum(train["present"].sum("year") / 2, 2)
    is_fitted = train["sst"].count("year") >= min_years
    climatology = train["sst"].mean("year").where(is_fitted).compute()
    anomaly = train["sst"] - climatology
    deviation = (anomaly**2).mean("year") ** 0.5
    # The line of least squares: the mean of the anomalies is 0, so it is 0 in the middle.
    along = ["year", "month"]
    time = train["time"].where(anomaly.notnull())
    trend = MONTHS * xarray.cov(time, anomaly, along) / time.var(along, ddof=1)
    fitted = {
        "climatology": climatology,
        "deviation": deviation.clip(min=DEVIATION_FLOOR_K).fillna(1),
        "trend": trend.fillna(0),
        "middle": time.mean(along).fillna(0),
    }
    return xarray.Dataset(fitted).compute().astype(np.float32).assign(sea=sea)
