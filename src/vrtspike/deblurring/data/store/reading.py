"""Reading a store: crops of consecutive frames, by name of the array."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.store.layout import SCHEMA, StoreLayout
from vrtspike.deblurring.data.store.readers import ArrayRead, ChunkReader, read_attributes
from vrtspike.errors import DataError


class Store:
    """A store opened for reading.

    Arrays are opened on first use and once per process: the object can be sent to worker processes,
    where it opens its own (a tensorstore handle must not cross a fork).
    """

    def __init__(self, path: str | os.PathLike[str], reader: ChunkReader | None = None) -> None:
        """Read the store's attributes.

        Args:
            path: the store's folder, or its address on any file system that fsspec knows
                (``s3://bucket/data/GOPR0372_07_00.zarr``); the latter is read by zarr.
            reader: opens the arrays; None is the default reader without a cache.

        Raises:
            DataError: if there is no store, it was written by another version of the project, or
                its attributes are damaged.
        """
        self.path = str(path)
        self._reader = reader or ChunkReader()
        self._arrays: dict[str, ArrayRead] = {}
        self._process = os.getpid()
        attributes = read_attributes(self.path)
        found = attributes.get("schema")
        if found != SCHEMA:
            raise DataError(
                f"{self.path}: not a store of this version: found schema {found}, expected "
                f"{SCHEMA}; delete the store and run snakemake again"
            )
        try:
            self.layout = StoreLayout.from_attributes(attributes)
            self.gain = _gain(attributes)
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(
                f"{self.path}: zarr.json is damaged ({error!r}); delete the store and run "
                "snakemake again"
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: everything but the open arrays."""
        return {**self.__dict__, "_arrays": {}}

    def read(self, name: str, frames: slice, rows: slice, columns: slice) -> NDArray[np.uint8]:
        """Read a crop of consecutive frames.

        Args:
            name: one of the layout's ``shapes``.
            frames: which frames.
            rows: which rows, in the array's own pixels.
            columns: which columns (of ``bits``: which bytes).

        Returns:
            uint8, the crop with the array's axes.

        Raises:
            DataError: if a chunk cannot be read or decoded.
        """
        shape = self.layout.shapes[name]
        planes = [slice(0, shape[1])] if name in ("voxels", "bits") else []
        wanted = (frames, *planes, rows, columns)
        wanted += (slice(None),) * (len(shape) - len(wanted))
        ranges = [slice(*s.indices(size)[:2]) for s, size in zip(wanted, shape, strict=True)]
        read = self._open(name)
        try:
            return read(tuple(ranges))
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"{self.path}/{name}: frames {frames.start} to {frames.stop} cannot be read "
                f"({error}); delete the store and run snakemake again"
            ) from error

    def _open(self, name: str) -> ArrayRead:
        if self._process != os.getpid():
            self._arrays, self._process = {}, os.getpid()
        if name not in self._arrays:
            shape = self.layout.shapes[name]
            self._arrays[name] = self._reader.open_array(f"{self.path}/{name}", shape)
        return self._arrays[name]


def _gain(attributes: dict[str, Any]) -> float | None:
    """The gain among a store's attributes: a positive number exactly where there are spikes."""
    gain = attributes["gain"]
    if attributes["spike_size"] is None:
        return None
    if not isinstance(gain, float) or not gain > 0:
        raise ValueError(f"gain {gain}, a positive number expected")
    return gain


def open_store(path: str | os.PathLike[str], reader: ChunkReader | None = None) -> Store:
    """Open a store for reading; see :class:`Store`."""
    return Store(path, reader)
