"""The prepared data: a Zarr v3 group of one region at one resolution.

=============== =========== ======= ==========================================================
array           shape       type    contents
=============== =========== ======= ==========================================================
``sst``         (N, H, W)   float32 sea surface temperature in kelvin, NaN where there is none
``anomaly``     (N, H, W)   float32 (sst - climatology) / deviation of its month; 0 on land
``climatology`` (12, H, W)  float32 mean of each calendar month of the training years, kelvin
``deviation``   (12, H, W)  float32 standard deviation of the same months about it, kelvin
``sea``         (H, W)      uint8   1 where there is sea in every month
=============== =========== ======= ==========================================================

On land climatology and deviation are 0 and 1. The manifest beside it (``<name>.json``) says which
months, years, region and files these are, and holds the digest of the contents, which does not
depend on chunks, codec or versions of libraries.

A chunk holds as many months of a year as fit into 1 MB, a file a year. Each chunk ends in its
CRC-32C, so that damage is noticed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError, UserError
from vrtspike.manifests import ManifestKind, read_manifest
from vrtspike.sst.area import Area
from vrtspike.sst.grid import Grid
from vrtspike.sst.months import MONTHS
from vrtspike.sst.years import Years

PREPARED = ManifestKind(
    "manifest of prepared temperatures",
    1,
    "prepare",
    frozenset(
        {"area", "resolution", "years", "first_month", "months", "files", "preliminary"}
        | {"sea_cells", "dropped_cells", "store", "digest"}
    ),
)
CHUNK_BYTES = 1_000_000
CACHE_BYTES = 64_000_000
"""Memory for decoded chunks in each process that reads."""
_AGAIN = "delete the store and prepare it again"


@dataclass(frozen=True)
class StoreLayout:
    """What a store holds.

    Attributes:
        months: N.
        grid: its cells.
    """

    months: int
    grid: Grid

    @property
    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and type of each array."""
        cells = self.grid.shape
        series = ((self.months, *cells), "float32")
        yearly = ((MONTHS, *cells), "float32")
        return {
            "sst": series,
            "anomaly": series,
            "climatology": yearly,
            "deviation": yearly,
            "sea": (cells, "uint8"),
        }

    @property
    def chunk_months(self) -> int:
        """Months of a chunk: a part of a year."""
        month = 4 * self.grid.shape[0] * self.grid.shape[1]
        return next(n for n in (12, 6, 4, 3, 2, 1) if n == 1 or n * month <= CHUNK_BYTES)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, decoded."""
        return sum(
            int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in self.arrays.values()
        )


def create_arrays(path: Path, layout: StoreLayout) -> dict[str, Any]:
    """A group with empty arrays; returns these by name."""
    # Imported here: planning and reading do without it.
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec

    group = zarr.create_group(path, zarr_format=3)
    arrays = {}
    for name, (shape, kind) in layout.arrays.items():
        chunk = shape if len(shape) == 2 else (layout.chunk_months, *shape[1:])
        shard = shape if len(shape) == 2 else (MONTHS, *shape[1:])
        arrays[name] = group.create_array(
            name,
            shape=shape,
            chunks=chunk,
            shards=shard,
            dtype=kind,
            compressors=[BloscCodec(cname="zstd", clevel=3, shuffle="shuffle"), Crc32cCodec()],
            fill_value=0,
            # A chunk of zeros is written, too: one that is absent is damage.
            config={"write_empty_chunks": True},
        )
    return arrays


class PreparedStore:
    """Prepared temperatures, opened for reading.

    Arrays are opened on first use, and only what is asked for is read: workers share nothing but
    the files. Workers are started by ``forkserver`` or ``spawn``; tensorstore stands no fork.

    Args:
        manifest: the manifest's path, ``<name>.json``.

    Raises:
        DataError: if it is missing, damaged or of another version.
    """

    def __init__(self, manifest: str | os.PathLike[str]) -> None:
        self.path = Path(manifest)
        contents = read_manifest(self.path, PREPARED)
        try:
            self.area = Area.from_json(contents["area"])
            self.grid = Grid(self.area, float(contents["resolution"]))
            self.years = Years.from_json(contents["years"])
            self.first_month = int(contents["first_month"])
            self.layout = StoreLayout(int(contents["months"]), self.grid)
        except (LookupError, TypeError, ValueError, UserError) as error:
            raise DataError(f"{self.path}: damaged ({error!r}); {_AGAIN}") from error
        self.manifest = contents
        self.digest = str(contents["digest"])
        self.folder = self.path.parent / contents["store"]
        self._arrays: dict[str, Any] = {}

    @property
    def sea(self) -> NDArray[np.bool_]:
        """(H, W) cells that are sea."""
        return self._whole("sea").astype(bool)

    @property
    def climatology(self) -> NDArray[np.float32]:
        """(12, H, W) kelvin; 0 on land."""
        return self._whole("climatology")

    @property
    def deviation(self) -> NDArray[np.float32]:
        """(12, H, W) kelvin; 1 on land."""
        return self._whole("deviation")

    def weights(self) -> NDArray[np.float64]:
        """(H, W) shares of the sea's area; 0 on land, 1 in all."""
        areas: NDArray[np.float64] = self.grid.areas() * self.sea
        return areas / areas.sum()

    def read(self, name: str, first: int, last: int) -> NDArray[np.float32]:
        """Some months of ``sst`` or ``anomaly``.

        Args:
            name: of the array.
            first: number of the first month (:mod:`vrtspike.sst.months`).
            last: number of the month after the last.

        Returns:
            (last - first, H, W) float32.

        Raises:
            DataError: if they cannot be read.
        """
        start, stop = first - self.first_month, last - self.first_month
        if not 0 <= start < stop <= self.layout.months:
            raise ValueError(f"months {start} to {stop} of {self.layout.months}")
        return self.read_places(name, slice(start, stop))

    def _whole(self, name: str) -> Any:  # noqa: ANN401 - of the array's type
        return self.read_places(name, slice(None))

    def read_places(self, name: str, places: slice) -> Any:  # noqa: ANN401 - of the array's type
        """Some entries of any of the arrays, along its first axis.

        Raises:
            DataError: if they cannot be read.
        """
        try:
            return np.asarray(self._open(name)[places].read().result())
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise DataError(f"{self.folder}/{name}: cannot be read ({error}); {_AGAIN}") from error

    def _open(self, name: str) -> Any:  # noqa: ANN401 - a tensorstore array
        if name not in self._arrays:
            self._arrays[name] = self._opened(name)
        return self._arrays[name]

    def _opened(self, name: str) -> Any:  # noqa: ANN401 - a tensorstore array
        import tensorstore

        array = tensorstore.open(
            {
                "driver": "zarr3",
                "kvstore": {"driver": "file", "path": str((self.folder / name).resolve())},
                "recheck_cached_data": False,
                "recheck_cached_metadata": False,
                # A lost file is an error, not a sea without anomalies.
                "fill_missing_data_reads": False,
            },
            read=True,
            open=True,
            context=tensorstore.Context(
                {
                    "cache_pool": {"total_bytes_limit": CACHE_BYTES},
                    "data_copy_concurrency": {"limit": 1},
                }
            ),
        ).result()
        shape, kind = self.layout.arrays[name]
        if tuple(array.shape) != shape or array.dtype.name != kind:
            raise ValueError(f"{array.dtype.name} {tuple(array.shape)}, {kind} {shape} expected")
        return array
