"""From downloaded files to the prepared store: region, resolution, mask, climatology, anomalies.

Climatology and standard deviations come from the training years alone, so that nothing of what a
model is judged by enters what it reads. A year of fields is held in memory at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError, DiskFullError, is_disk_full
from vrtspike.files import atomic_path, json_digest, write_json
from vrtspike.sst.area import Area
from vrtspike.sst.grid import Grid, Regridder
from vrtspike.sst.months import MONTHS, calendar_month, month_name
from vrtspike.sst.reading import MonthlyMeans
from vrtspike.sst.store import PREPARED, PreparedStore, StoreLayout, create_arrays
from vrtspike.sst.years import Years, default_years
from vrtspike.versions import file_entry

DEVIATION_FLOOR_K = 0.1
"""Least standard deviation in kelvin. Under sea ice the temperature hardly moves; divided by less,
its rounding would outweigh the tropics."""

_Read: TypeAlias = Callable[[str, slice], NDArray[Any]]
Progress: TypeAlias = Callable[[int, int], None]


def prepare(
    root: str | Path,
    area: Area,
    resolution: float,
    output: str | Path,
    years: Years | None = None,
    progress: Progress | None = None,
) -> PreparedStore:
    """Read a download and write the store of one region at one resolution, and its manifest.

    The store stands beside the manifest, ``<name>.zarr``, and is complete before the manifest
    appears.

    Args:
        root: a file, or a folder of files, as ERA5 delivers them.
        area: the region.
        resolution: degrees of a cell; whole multiples of the files' steps are not needed.
        output: the manifest to write, ``<name>.json``.
        years: the splits; None divides the whole years that there are (see
            :func:`~vrtspike.sst.years.default_years`).
        progress: called with the months done and their total.

    Raises:
        DataError: if the files cannot be used, do not hold these years, or the region has no sea.
        DiskFullError: if the disk is full.
        ConfigError: if the region is no whole number of cells high and wide.
    """
    means, grid, output = MonthlyMeans(root), Grid(area, resolution), Path(output)
    if years is None:
        years = default_years(means.months, str(root))
    years.require_within(means.months, str(root))
    layout = StoreLayout(len(means.months), grid)
    store = output.with_suffix(".zarr")
    header = _header(means, grid, years)
    try:
        with atomic_path(store) as temporary:
            arrays = create_arrays(temporary, layout)
            facts = _fill(arrays, means, grid, years, progress)
            digest = contents_digest(header, layout, lambda name, places: arrays[name][places])
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise DiskFullError(
            f"{store}: the disk is full ({error.strerror}); nothing was kept. The store needs up "
            f"to {layout.nbytes / 1e6:.0f} MB. Free space, or prepare it on another disk"
        ) from error
    base = means.root if means.root.is_dir() else means.root.parent
    contents = {
        "schema": PREPARED.schema,
        **header,
        "area": area.as_json(),
        "files": [file_entry(base, file.path.name) for file in means.files],
        **facts,
        "store": store.name,
        "digest": digest,
    }
    write_json(output, contents)
    return PreparedStore(output)


def stored_digest(store: PreparedStore) -> str:
    """The digest of what a store holds now; another one than its manifest's tells damage.

    Raises:
        DataError: if it cannot be read.
    """
    keys = ("area", "resolution", "years", "first_month", "months")
    header = {key: store.manifest[key] for key in keys}
    return contents_digest(header, store.layout, store.read_places)


def contents_digest(header: Mapping[str, Any], layout: StoreLayout, read: _Read) -> str:
    """SHA-256 of where and when the cells are and of all arrays, decoded, year by year.

    The region's name and description do not count.
    """
    edges = {key: header["area"][key] for key in ("lon", "lat")}
    digest = hashlib.sha256(json_digest({**header, "area": edges}).encode())
    for name, (shape, kind) in layout.arrays.items():
        for places in _years_of(shape[0]) if len(shape) == 3 else [slice(0, shape[0])]:
            values = np.ascontiguousarray(read(name, places), dtype=np.dtype(kind))
            digest.update(values.data)
    return digest.hexdigest()


def _header(means: MonthlyMeans, grid: Grid, years: Years) -> dict[str, Any]:
    return {
        "area": grid.area.as_json(),
        "resolution": grid.resolution,
        "years": years.as_json(),
        "first_month": means.months[0],
        "months": len(means.months),
    }


def _fill(
    arrays: Mapping[str, Any],
    means: MonthlyMeans,
    grid: Grid,
    years: Years,
    progress: Progress | None,
) -> dict[str, Any]:
    """Fill the arrays; returns what is told of them in the manifest."""
    training = years.months("train")
    sums, counts = np.zeros((MONTHS, *grid.shape)), np.zeros(MONTHS)
    always, ever = np.ones(grid.shape, bool), np.zeros(grid.shape, bool)
    preliminary: list[int] = []
    done = 0
    for months, kelvin, late in _regridded(means, grid):
        arrays["sst"][done : done + len(months)] = kelvin
        sea = np.isfinite(kelvin)
        always &= sea.all(axis=0)
        ever |= sea.any(axis=0)
        preliminary += sorted(late)
        for month, values in zip(months, kelvin, strict=True):
            if month in training:
                sums[calendar_month(month)] += np.where(np.isfinite(values), values, 0)
                counts[calendar_month(month)] += 1
        done += len(months)
        if progress is not None:
            progress(done, len(means.months))
    if not always.any():
        raise DataError(_no_sea(means, grid, ever))
    climatology = np.where(always, sums / counts[:, None, None], 0).astype(np.float32)
    arrays["sea"][:] = always.astype(np.uint8)
    arrays["climatology"][:] = climatology
    deviation = _deviation(arrays["sst"], climatology, always, means.months, training)
    arrays["deviation"][:] = deviation
    for places in _years_of(len(means.months)):
        kinds = [calendar_month(month) for month in means.months[places]]
        anomaly = (arrays["sst"][places] - climatology[kinds]) / deviation[kinds]
        arrays["anomaly"][places] = np.where(always, anomaly, 0).astype(np.float32)
    return {
        "sea_cells": int(always.sum()),
        "dropped_cells": int((ever & ~always).sum()),
        "preliminary": [month_name(month) for month in preliminary],
    }


def _regridded(
    means: MonthlyMeans, grid: Grid
) -> Iterator[tuple[tuple[int, ...], NDArray[np.float32], frozenset[int]]]:
    """Months, their fields (n, H, W) on the grid, and which are preliminary."""
    regrid = Regridder(means.latitudes, means.longitudes, grid, str(means.root))
    for slab in means.slabs():
        kelvin = regrid(slab.kelvin).astype(np.float32)
        if not np.isfinite(kelvin).any():
            raise DataError(_no_sea(means, grid, np.zeros(grid.shape, bool)))
        yield slab.months, kelvin, slab.preliminary


def _no_sea(means: MonthlyMeans, grid: Grid, ever: NDArray[np.bool_]) -> str:
    lon, lat = (list(edges) for edges in (grid.area.lon, grid.area.lat))
    sometimes = f" ({ever.sum()} cells have values in some months only)" if ever.any() else ""
    return (
        f"{means.root}: area {grid.area.name}, lon {lon}, lat {lat}, has no cell of "
        f"{grid.resolution:g} degrees that is sea by half or more in every month{sometimes}; "
        "choose a region with sea or a finer resolution"
    )


def _deviation(
    sst: Any,  # noqa: ANN401 - a zarr array
    climatology: NDArray[np.float32],
    sea: NDArray[np.bool_],
    months: tuple[int, ...],
    training: range,
) -> NDArray[np.float32]:
    """(12, H, W) standard deviation about the climatology in the training years; 1 on land."""
    squares, counts = np.zeros(climatology.shape), np.zeros(MONTHS)
    for places in _years_of(len(months)):
        for month, values in zip(months[places], sst[places], strict=True):
            if month in training:
                kind = calendar_month(month)
                squares[kind] += np.where(sea, values - climatology[kind], 0) ** 2
                counts[kind] += 1
    deviation = np.sqrt(squares / counts[:, None, None])
    return np.where(sea, np.maximum(deviation, DEVIATION_FLOOR_K), 1).astype(np.float32)


def _years_of(months: int) -> list[slice]:
    """Places of twelve months at a time."""
    return [slice(start, min(start + MONTHS, months)) for start in range(0, months, MONTHS)]
