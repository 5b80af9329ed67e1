"""Read arrays of a local store out of the operating system's page cache.

Uncompressed arrays are copied from mapped memory. Counts are compressed by blosc with bit shuffle:
that is to say, all lowest bits of a chunk, then all second bits and so on, and these planes by lz4.
Putting the bits back together takes three quarters of the decoding time. A crop needs only a part
of each chunk and counts have few bits, so here the planes are unpacked by lz4 alone, cut, and
then expanded by tables (:func:`vrtspike.data.store.voxels.join_planes`): a third of the time.
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.store.shards import Shard, ShardedFiles
from vrtspike.data.store.voxels import join_planes

_MOST_PLANES = 4
"""Of arrays with more bits, blosc is left to put the bits together."""

# The header of a blosc chunk: 16 bytes, of which these matter here.
_FLAGS, _BLOCK_SIZE = 2, slice(8, 12)
_UNCOMPRESSED, _BIT_SHUFFLE = 0x02, 0x04

_Piece = tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]
"""A chunk's place in its frame, the part of it that is wanted, and where that goes."""


class MappedArray:
    """An uncompressed uint8 array."""

    def __init__(self, path: Path, metadata: dict[str, Any]) -> None:
        """Take over the array's ``zarr.json``, for which :meth:`can_read` is true."""
        self._files = ShardedFiles(path, metadata)

    @staticmethod
    def can_read(metadata: dict[str, Any]) -> bool:
        """Whether an array is stored in a way that can be mapped."""
        return ShardedFiles.can_read(metadata) and _codecs(metadata) == ["bytes", "crc32c"]

    def read(self, box: tuple[slice, ...]) -> NDArray[np.uint8]:
        """Read a box; every slice has its first and last element.

        Raises:
            OSError: if a file is missing.
            ValueError: if a file is cut, or a chunk absent or damaged.
        """
        out = np.empty([part.stop - part.start for part in box], dtype=np.uint8)
        chunk = self._files.chunk[1:]
        pieces = _pieces(box[1:], chunk)
        for shard, frame, target in _frames(self._files, box[0], pieces):
            for place, inside, outside in pieces:
                out[target][outside] = shard.view((frame, *place), chunk)[inside]
        return out


class MappedCounts:
    """A uint8 array of small numbers (N, K, h, w), compressed by blosc with bit shuffle."""

    def __init__(self, path: Path, metadata: dict[str, Any], largest: int) -> None:
        """Take over the array's ``zarr.json``, for which :meth:`can_read` is true."""
        self._files = ShardedFiles(path, metadata)
        self._planes = max(1, largest.bit_length())
        self._scratch = threading.local()
        self._row = np.dtype(f"V{self._files.chunk[-1] // 8}")

    @staticmethod
    def can_read(metadata: dict[str, Any], largest: int) -> bool:
        """Whether an array whose largest number is at most ``largest`` is read faster this way."""
        return (
            ShardedFiles.can_read(metadata)
            and _codecs(metadata) == ["bytes", "blosc", "crc32c"]
            and largest < 2**_MOST_PLANES
            and metadata["codecs"][0]["configuration"]["chunk_shape"][-1] % 8 == 0
        )

    def read(self, box: tuple[slice, ...]) -> NDArray[np.uint8]:
        """Read a box; every slice has its first and last element.

        Raises:
            OSError: if a file is missing.
            ValueError: if a file is cut, or a chunk absent or damaged.
            RuntimeError: if a chunk cannot be decoded.
        """
        out = np.empty([part.stop - part.start for part in box], dtype=np.uint8)
        *planes, columns = box[1:]
        *sizes, width = self._files.chunk[1:]
        # The bits of a row of a chunk are copied as one item: NumPy is slow with short rows.
        across = slice(columns.start // width, -(-columns.stop // width))
        wide_box = (*planes, across)
        packed = np.empty((self._planes, *(part.stop - part.start for part in wide_box)), self._row)
        pieces = _pieces(wide_box, (*sizes, 1))
        first = columns.start - across.start * width
        for shard, frame, target in _frames(self._files, box[0], pieces):
            for place, inside, outside in pieces:
                found = self._decode(shard.encoded((frame, *place))).view(self._row)
                packed[(slice(None), *outside)] = found[(slice(None), *inside)]
            numbers = join_planes(packed.view(np.uint8))
            out[target] = numbers[..., first : first + out.shape[-1]]
        return out

    def _decode(self, encoded: bytearray) -> NDArray[np.uint8]:
        """Bit planes (planes, K, h, w / 8) of a chunk, valid until this thread's next call."""
        from numcodecs import blosc

        chunk, flags = self._room(), encoded[_FLAGS]
        if flags & _UNCOMPRESSED or not flags & _BIT_SHUFFLE:
            blosc.decompress(encoded, chunk)
            bits = [chunk >> number & 1 for number in range(self._planes)]
            return np.packbits(bits, axis=-1, bitorder="little")
        encoded[_FLAGS] = flags & ~_BIT_SHUFFLE
        blosc.decompress(encoded, chunk)
        size, whole = int.from_bytes(encoded[_BLOCK_SIZE], "little"), chunk.reshape(-1)
        blocks = [whole[at : at + size].reshape(8, -1) for at in range(0, whole.size, size)]
        planes = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        return planes[: self._planes].reshape(-1, *chunk.shape[:-1], chunk.shape[-1] // 8)

    def _room(self) -> NDArray[np.uint8]:
        """Memory for a decoded chunk, of each thread its own: blosc lets other threads run."""
        if not hasattr(self._scratch, "chunk"):
            # Kept, because fresh memory for every chunk would cost page faults.
            self._scratch.chunk = np.empty(self._files.chunk[1:], np.uint8)
        room: NDArray[np.uint8] = self._scratch.chunk
        return room


def _codecs(metadata: dict[str, Any]) -> list[str]:
    """Names of the codecs of a chunk."""
    return [codec["name"] for codec in metadata["codecs"][0]["configuration"]["codecs"]]


def _pieces(box: tuple[slice, ...], chunk: tuple[int, ...]) -> list[_Piece]:
    """The chunks of a frame that a box touches."""
    axes = []
    for part, size in zip(box, chunk, strict=True):
        axis = []
        for number in range(part.start // size, -(-part.stop // size)):
            low, high = max(part.start, number * size), min(part.stop, (number + 1) * size)
            axis.append(
                (
                    number,
                    slice(low - number * size, high - number * size),
                    slice(low - part.start, high - part.start),
                )
            )
        axes.append(axis)
    found = []
    for combination in itertools.product(*axes):
        place, inside, outside = zip(*combination, strict=True)
        found.append((place, inside, outside))
    return found


def _frames(
    files: ShardedFiles, frames: slice, pieces: list[_Piece]
) -> list[tuple[Shard, int, int]]:
    """Open the files of some frames: the file, a frame of it, and its number in the box.

    The pieces of all frames are asked for before the first is given.
    """
    found = []
    start = frames.start
    while start < frames.stop:
        number, first = divmod(start, files.frames)
        count = min(frames.stop - start, files.frames - first)
        shard = files.open(number)
        inside = range(first, first + count)
        shard.read_ahead([(frame, *place) for frame in inside for place, _, _ in pieces])
        found += [(shard, frame, start - frames.start + frame - first) for frame in inside]
        start += count
    return found
