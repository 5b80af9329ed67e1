"""The files of a sharded Zarr v3 array, mapped into memory and checked.

Nothing is cached here: what is read comes out of the operating system's page cache, which all
processes share. The index of a file is checked whenever the file is opened, a chunk when this
process reads it for the first time (a chunk of 184 kB takes some 25 microseconds).
"""

from __future__ import annotations

import errno
import math
import mmap
from pathlib import Path
from typing import IO, Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError

_CRC_BYTES = 4
_ABSENT = 2**64 - 1


class ShardedFiles:
    """The files of one array on a local disk, each of which holds all chunks of a few frames."""

    def __init__(self, path: Path, metadata: dict[str, Any]) -> None:
        """Take over what the array's ``zarr.json`` says; no data file is opened yet.

        Args:
            path: the array's folder.
            metadata: contents of its ``zarr.json``, for which :meth:`can_read` is true.
        """
        self._path = path
        self.shape: tuple[int, ...] = tuple(metadata["shape"])
        self.chunk: tuple[int, ...] = tuple(metadata["codecs"][0]["configuration"]["chunk_shape"])
        shard = _shard_shape(metadata)
        self.frames = shard[0]
        """Frames of a file."""
        self._grid = tuple(a // b for a, b in zip(shard, self.chunk, strict=True))
        self._checked = np.zeros((-(-self.shape[0] // shard[0]), *self._grid), dtype=np.bool_)

    @staticmethod
    def can_read(metadata: dict[str, Any]) -> bool:
        """Whether an array is stored in files of whole frames, with the checksums of a store."""
        codecs = metadata["codecs"]
        if len(codecs) != 1 or codecs[0]["name"] != "sharding_indexed":
            return False
        inner = codecs[0]["configuration"]
        shard, shape = _shard_shape(metadata), metadata["shape"]
        return (
            metadata["data_type"] == "uint8"
            and inner["codecs"][-1]["name"] == "crc32c"
            and [codec["name"] for codec in inner["index_codecs"]] == ["bytes", "crc32c"]
            and inner.get("index_location", "end") == "end"
            and metadata["chunk_key_encoding"]["name"] == "default"
            and inner["chunk_shape"][0] == 1
            and all(shard[a] >= shape[a] for a in range(1, len(shape)))
        )

    def open(self, number: int) -> Shard:
        """Map file ``number``.

        Raises:
            DataError: if the file system cannot map files.
            OSError: if it is missing.
            ValueError: if it is cut or its index damaged.
        """
        name = f"c/{number}" + "/0" * (len(self.shape) - 1)
        with open(f"{self._path}/{name}", "rb") as stream:  # noqa: PTH123 - speed
            mapping = self._map(stream)
        size = 16 * math.prod(self._grid)
        end = len(mapping) - size - _CRC_BYTES
        if end < 0 or _damaged(mapping[end:]):
            raise ValueError(f"{name} is cut, or its index is damaged")
        index = np.ndarray((*self._grid, 2), "<u8", mapping, end)
        return Shard(name, mapping, index, self._checked[number])

    def _map(self, stream: IO[bytes]) -> mmap.mmap:
        try:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise
            raise DataError(
                f"{self._path}: this file system cannot map files into memory; set DATA.READER to "
                "tensorstore, or copy the stores to another disk"
            ) from error


class Shard:
    """One mapped file. Chunks are named by their place in it: frame, then the other axes."""

    def __init__(
        self,
        name: str,
        mapping: mmap.mmap,
        index: NDArray[np.uint64],
        checked: NDArray[np.bool_],
    ) -> None:
        self._name = name
        self._mapping = mapping
        self._index = index
        self._checked = checked

    def read_ahead(self, places: list[tuple[int, ...]]) -> None:
        """Ask for all chunks at once: page by page, a cold disk would be waited for each time."""
        if not hasattr(self._mapping, "madvise"):
            return
        for place in places:
            start, length = self._index[place].tolist()
            if start != _ABSENT:
                page = start - start % mmap.PAGESIZE
                self._mapping.madvise(mmap.MADV_WILLNEED, page, start + length - page)

    def start(self, place: tuple[int, ...]) -> int:
        """Where a chunk begins in the file; its contents are checked.

        Raises:
            ValueError: if the chunk is absent or damaged.
        """
        return self._checked_range(place)[0]

    def encoded(self, place: tuple[int, ...]) -> bytearray:
        """A copy of a chunk as it is stored, without its checksum.

        Raises:
            ValueError: if the chunk is absent or damaged.
        """
        start, length = self._checked_range(place)
        return bytearray(memoryview(self._mapping)[start : start + length - _CRC_BYTES])

    def view(self, place: tuple[int, ...], shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """An uncompressed chunk, in the mapped memory."""
        return np.ndarray(shape, np.uint8, self._mapping, self.start(place))

    def _checked_range(self, place: tuple[int, ...]) -> tuple[int, int]:
        start, length = self._index[place].tolist()
        if not self._checked[place]:
            if start == _ABSENT or _damaged(self._mapping[start : start + length]):
                raise ValueError(f"{self._name}: chunk {list(place)} is absent or damaged")
            self._checked[place] = True
        return start, length


def _damaged(data: bytes) -> bool:
    """Whether bytes do not end in their own CRC-32C."""
    checksum = int.from_bytes(data[-_CRC_BYTES:], "little")
    return bool(google_crc32c.value(data[:-_CRC_BYTES]) != checksum)


def _shard_shape(metadata: dict[str, Any]) -> tuple[int, ...]:
    return tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"])
