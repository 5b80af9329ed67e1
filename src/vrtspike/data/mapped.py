"""Read uncompressed Zarr v3 arrays by mapping their files into memory.

Nothing is decoded and nothing cached here: a crop is copied out of the operating system's page
cache, which all processes share. Arrays must be sharded along the first axis, their chunks cut
along one further axis at most and coded as plain bytes followed by a CRC-32C (which is skipped
here; ``vrtspike verify`` compares it).
"""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CRC_BYTES = 4


class MappedArray:
    """A uint8 array on a local disk."""

    def __init__(self, path: Path, metadata: dict[str, Any]) -> None:
        """Take over what the array's ``zarr.json`` says; no data file is opened yet.

        Args:
            path: the array's folder.
            metadata: contents of its ``zarr.json``, for which :meth:`can_read` is true.
        """
        self._path = path
        self.shape: tuple[int, ...] = tuple(metadata["shape"])
        self._shard: tuple[int, ...] = _shard_shape(metadata)
        self._chunk: tuple[int, ...] = tuple(metadata["codecs"][0]["configuration"]["chunk_shape"])
        cut = [a for a in range(1, len(self.shape)) if self._chunk[a] != self._shard[a]]
        self._axis = cut[0] if cut else 1
        self._zeros = "/0" * (len(self.shape) - 1)

    @staticmethod
    def can_read(metadata: dict[str, Any]) -> bool:
        """Whether an array is stored in a way that can be mapped."""
        codecs = metadata["codecs"]
        if len(codecs) != 1 or codecs[0]["name"] != "sharding_indexed":
            return False
        inner = codecs[0]["configuration"]
        shard, chunk, shape = _shard_shape(metadata), inner["chunk_shape"], metadata["shape"]
        cut = [a for a in range(1, len(chunk)) if chunk[a] != shard[a]]
        return (
            metadata["data_type"] == "uint8"
            and [codec["name"] for codec in inner["codecs"]] == ["bytes", "crc32c"]
            and [codec["name"] for codec in inner["index_codecs"]] == ["bytes", "crc32c"]
            and inner.get("index_location", "end") == "end"
            and metadata["chunk_key_encoding"]["name"] == "default"
            and chunk[0] == 1
            and len(cut) <= 1
            and all(shard[a] >= shape[a] for a in range(1, len(shape)))
        )

    def read(self, box: tuple[slice, ...]) -> NDArray[np.uint8]:
        """Read a box; every slice has its first and last element.

        Raises:
            OSError: if a file is missing.
            ValueError: if a file is shorter than its index says, or a chunk is absent.
        """
        out = np.empty([part.stop - part.start for part in box], dtype=np.uint8)
        frames, per_shard = box[0], self._shard[0]
        frame = frames.start
        while frame < frames.stop:
            stop = min(frames.stop, (frame // per_shard + 1) * per_shard)
            self._read_shard(frame, stop, box, out[frame - frames.start : stop - frames.start])
            frame = stop
        return out

    def _read_shard(
        self, first: int, stop: int, box: tuple[slice, ...], out: NDArray[np.uint8]
    ) -> None:
        """Copy frames ``first`` to ``stop`` of one file into ``out``."""
        number = first // self._shard[0]
        axis, size = self._axis, self._chunk[self._axis]
        rows = box[axis]
        bands = range(rows.start // size, -(-rows.stop // size))
        with open(f"{self._path}/c/{number}{self._zeros}", "rb") as stream:  # noqa: PTH123 - speed
            mapping = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        index = self._index(mapping, number)
        starts = index[first - number * self._shard[0] : stop - number * self._shard[0]].tolist()
        self._read_ahead(mapping, [places[band] for places in starts for band in bands])
        inside, place = list(box[1:]), [slice(None)] * (len(box) - 1)
        for frame, places in enumerate(starts):
            for band in bands:
                low, high = max(rows.start, band * size), min(rows.stop, (band + 1) * size)
                inside[axis - 1] = slice(low - band * size, high - band * size)
                place[axis - 1] = slice(low - rows.start, high - rows.start)
                chunk = np.ndarray(self._chunk[1:], np.uint8, mapping, places[band])
                out[frame][tuple(place)] = chunk[tuple(inside)]

    def _read_ahead(self, mapping: mmap.mmap, starts: list[int]) -> None:
        """Ask for all chunks at once: page by page, a cold disk would be waited for each time."""
        if not hasattr(mapping, "madvise"):
            return
        length = math.prod(self._chunk)
        for start in starts:
            page = start - start % mmap.PAGESIZE
            mapping.madvise(mmap.MADV_WILLNEED, page, start + length - page)

    def _index(self, mapping: mmap.mmap, number: int) -> NDArray[np.uint64]:
        """Where each chunk of file ``number`` begins: (frames, bands), only frames that exist."""
        frames = min(self._shard[0], self.shape[0] - number * self._shard[0])
        bands = self._shard[self._axis] // self._chunk[self._axis]
        count = self._shard[0] * bands
        end = len(mapping) - 16 * count - _CRC_BYTES
        if end < 0:
            raise ValueError(f"c/{number}{self._zeros} is cut: {len(mapping)} bytes")
        index = np.ndarray((self._shard[0], bands, 2), "<u8", mapping, end)[:frames]
        length = math.prod(self._chunk) + _CRC_BYTES
        if (index[..., 1] != length).any() or int(index[..., 0].max()) + length > end:
            raise ValueError(f"c/{number}{self._zeros} is cut, or its index is damaged")
        return np.asarray(index[..., 0], dtype=np.uint64)


def _shard_shape(metadata: dict[str, Any]) -> tuple[int, ...]:
    return tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"])
