"""The store of one sequence: a Zarr v3 group with frames decoded once and spikes at sensor size.

========== ================== ===== =========================================================
array      shape              type  contents
========== ================== ===== =========================================================
``blur``   (N, H, W, 3)       uint8 blurry frames, RGB
``sharp``  (N, H, W, 3)       uint8 sharp frames, RGB
``voxels`` (N, K, h, w)       uint8 spike counts per bin
``bits``   (N, T, h, ceil(w/8)) uint8 the spikes themselves, eight columns a byte, least
                                    significant bit first, top row first; frames with fewer than
                                    T = the sequence's longest exposure are padded with zeros
========== ================== ===== =========================================================

A store of a sequence without spikes holds ``blur`` and ``sharp`` only; its ``spike_frames`` is
empty and its ``spike_size`` null.

Attributes: ``schema``, ``frames`` (names), ``spike_frames`` (T of each frame), ``rgb_size``,
``spike_size``, ``bins``, ``gain`` (brightness of a spike rate of 1, see
:mod:`vrtspike.data.store.gain`; null without spikes).

How the arrays are cut and coded was chosen by measurement (``benchmarks/data.py``). Frames and bits
hardly compress (2.1 of 2.8 MB, 2.4 of 2.5 MB), so they lie uncompressed in bands of whole rows: a
crop is a copy out of the page cache. Counts shrink seven times and are compressed (lz4 with bit
shuffle) in squares. Each chunk ends in its CRC-32C, so that every reader notices damage; the chunks
of several frames form one file (a shard).
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import bin_table
from vrtspike.data.store.gain import GainMeter
from vrtspike.data.store.readers import ArrayRead, ChunkReader, read_attributes
from vrtspike.errors import DataError, is_disk_full
from vrtspike.files import atomic_path, json_digest

BAND = 48
"""Rows of RGB pixels in a chunk of frames; chunks of bits cover the same area."""
SQUARE = 128
"""Side in RGB pixels of the area that a chunk of counts covers."""
SHARD_BYTES = 12_000_000
"""Size of the frames that share a file, as pictures or as bits; bounds memory while writing."""
SHARD_FRAMES = 32
"""Most frames of a file."""
SCHEMA = 3
"""Version of the format and of what is in it: another law of bins is another version, too."""


@dataclass(frozen=True)
class StoreLayout:
    """What a store holds, known before the first frame is written."""

    frames: tuple[str, ...]
    spike_frames: tuple[int, ...]
    """T of each frame; empty without spikes."""
    rgb_size: tuple[int, int]
    spike_size: tuple[int, int] | None
    """None without spikes."""
    bins: int

    def __post_init__(self) -> None:
        """Refuse a layout without frames."""
        exposures = len(self.frames) if self.spike_size else 0
        if len(self.spike_frames) != exposures or not self.frames:
            raise ValueError("a store needs at least one frame, and one spike count for each")

    @property
    def scale(self) -> int:
        """RGB pixels per spike pixel along each side; 1 without spikes."""
        return self.rgb_size[0] // self.spike_size[0] if self.spike_size else 1

    @property
    def most_counts(self) -> int:
        """Spikes that one bin can hold."""
        if not self.spike_frames:
            return 0
        return int(bin_table(tuple(set(self.spike_frames)), self.bins).max())

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, decoded."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each array, by its name."""
        count = len(self.frames)
        rgb = dict.fromkeys(("blur", "sharp"), (count, *self.rgb_size, 3))
        if self.spike_size is None:
            return {**rgb}
        height, width = self.spike_size
        return {
            **rgb,
            "voxels": (count, self.bins, height, width),
            "bits": (count, max(self.spike_frames), height, -(-width // 8)),
        }

    @property
    def chunks(self) -> dict[str, tuple[int, ...]]:
        """Shape of a chunk of each array."""
        height, width = self.rgb_size
        rgb = {name: (1, min(BAND, height), width, 3) for name in ("blur", "sharp")}
        if self.spike_size is None:
            return {**rgb}
        rows, columns = self.spike_size
        side, band = max(8, SQUARE // self.scale), max(1, BAND // self.scale)
        return {
            **rgb,
            "voxels": (1, self.bins, min(side, rows), min(side, columns)),
            "bits": (1, max(self.spike_frames), min(band, rows), -(-columns // 8)),
        }

    @property
    def shard_frames(self) -> int:
        """Frames that share a file."""
        frame = max(math.prod(shape[1:]) for name, shape in self.shapes.items() if name != "voxels")
        return max(1, min(SHARD_BYTES // frame, SHARD_FRAMES, len(self.frames)))

    def attributes(self) -> dict[str, Any]:
        """The group's attributes, as JSON."""
        return {
            "schema": SCHEMA,
            "frames": list(self.frames),
            "spike_frames": list(self.spike_frames),
            "rgb_size": list(self.rgb_size),
            "spike_size": list(self.spike_size) if self.spike_size else None,
            "bins": self.bins,
        }

    @classmethod
    def from_attributes(cls, attributes: dict[str, Any]) -> StoreLayout:
        """The inverse of :meth:`attributes`."""
        spike_size = attributes["spike_size"]
        return cls(
            frames=tuple(attributes["frames"]),
            spike_frames=tuple(attributes["spike_frames"]),
            rgb_size=(attributes["rgb_size"][0], attributes["rgb_size"][1]),
            spike_size=(spike_size[0], spike_size[1]) if spike_size else None,
            bins=attributes["bins"],
        )


@dataclass(frozen=True)
class StoredFrame:
    """The arrays of one frame, shaped as one entry of the store's arrays.

    ``voxels`` and ``bits`` are None in a store without spikes.
    """

    blur: NDArray[np.uint8]
    sharp: NDArray[np.uint8]
    voxels: NDArray[np.uint8] | None = None
    bits: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class WrittenStore:
    """What is known of a store once its frames are written."""

    digest: str
    """SHA-256 of contents and layout; it does not depend on chunks, codec or versions of
    libraries."""
    gain: float | None
    """See :mod:`vrtspike.data.store.gain`; None without spikes."""


def write_store(
    path: str | os.PathLike[str], layout: StoreLayout, frames: Iterable[StoredFrame]
) -> WrittenStore:
    """Write a store atomically, holding the frames of one shard in memory at a time.

    Args:
        path: the store's folder; an older store there is replaced once the new one is complete.
        layout: what the frames are.
        frames: the frames, in order; ``bits`` may hold fewer than T steps.

    Raises:
        DataError: if the disk is full, or the spikes give no gain (there are none).
        ValueError: if a frame's shapes or the number of frames do not follow ``layout``.
    """
    digest, meter, gain = ContentDigest(layout), GainMeter(), None
    size = layout.shard_frames
    buffers = {
        name: np.zeros((size, *shape[1:]), np.uint8) for name, shape in layout.shapes.items()
    }
    try:
        with atomic_path(path) as temporary:
            group, arrays = _create_arrays(temporary, layout)
            count = 0
            for count, frame in enumerate(frames, start=1):
                digest.add(frame)
                if frame.voxels is not None:
                    meter.add(frame.blur, frame.voxels, layout.spike_frames[count - 1])
                place = (count - 1) % size
                for name, buffer in buffers.items():
                    values: NDArray[np.uint8] = getattr(frame, name)
                    buffer[place, : len(values)] = values
                    buffer[place, len(values) :] = 0
                if place + 1 == size or count == len(layout.frames):
                    for name, buffer in buffers.items():
                        arrays[name][count - place - 1 : count] = buffer[: place + 1]
            if count != len(layout.frames):
                raise ValueError(f"{count} frames given, the layout names {len(layout.frames)}")
            if layout.spike_size is not None:
                gain = meter.gain(str(path))
            group.update_attributes({"gain": gain})
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise DataError(
            f"{path}: the disk is full ({error.strerror}); nothing was kept. The store "
            f"needs about {layout.nbytes / 1e6:.0f} MB. Free space, or set RESULTS to another "
            "disk, and run again"
        ) from error
    return WrittenStore(digest.hexdigest(gain), gain)


def remove_leftovers(path: Path) -> None:
    """Remove what writers of this store left behind that were killed and could not clean up."""
    stem, name, suffix = (re.escape(part) for part in (path.stem, path.name, path.suffix))
    # Names may hold dots: 002.320 may be another sequence, which another job writes just now.
    left = re.compile(rf"\.({stem}\.[0-9a-f]{{8}}\.tmp{suffix}|{name}\.[0-9a-f]{{8}}\.old)")
    for folder in path.parent.glob(".*"):
        if left.fullmatch(folder.name):
            shutil.rmtree(folder)


class ContentDigest:
    """Digest of a store's decoded contents, frame by frame."""

    def __init__(self, layout: StoreLayout) -> None:
        attributes = {k: v for k, v in layout.attributes().items() if k != "schema"}
        self._digest = hashlib.sha256(json_digest(attributes).encode())
        self._layout = layout
        self._count = 0

    def add(self, frame: StoredFrame) -> None:
        """Take in the next frame.

        Raises:
            ValueError: if its shapes do not follow the layout.
        """
        if self._count == len(self._layout.frames):
            raise ValueError(f"more than the {self._count} frames that the layout names")
        place = self._count
        self._count += 1
        for name, shape in self._layout.shapes.items():
            values: NDArray[np.uint8] = getattr(frame, name)
            expected = shape[1:]
            if name == "bits":
                expected = (self._layout.spike_frames[place], *shape[2:])
            if values.shape != expected or values.dtype != np.uint8:
                raise ValueError(f"{name} of frame {self._count}: {values.shape} is not {expected}")
            self._digest.update(np.ascontiguousarray(values).data)

    def hexdigest(self, gain: float | None) -> str:
        """The digest of what was added so far, and of the gain where there are spikes."""
        whole = self._digest.copy()
        whole.update(b"" if gain is None else gain.hex().encode())
        return whole.hexdigest()


def _create_arrays(path: Path, layout: StoreLayout) -> tuple[Any, dict[str, Any]]:
    """A group with empty arrays, and these by name."""
    # zarr is imported here because planning and reading with other readers do without it.
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec

    group = zarr.create_group(path, zarr_format=3, attributes=layout.attributes())
    arrays = {}
    for name, shape in layout.shapes.items():
        chunk = layout.chunks[name]
        pieces = zip(shape[1:], chunk[1:], strict=True)
        blosc = [BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle")]
        arrays[name] = group.create_array(
            name,
            shape=shape,
            chunks=chunk,
            shards=(layout.shard_frames, *(-(-size // piece) * piece for size, piece in pieces)),
            dtype="uint8",
            compressors=[*(blosc if name == "voxels" else []), Crc32cCodec()],
            fill_value=0,
            # A chunk of zeros is written too: one that is absent is damage.
            config={"write_empty_chunks": True},
        )
    return group, arrays


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
                f"{SCHEMA}; run voxelize again"
            )
        try:
            self.layout = StoreLayout.from_attributes(attributes)
            self.gain = _gain(attributes)
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(
                f"{self.path}: zarr.json is damaged ({error!r}); delete the store and run "
                "voxelize again"
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
                f"({error}); delete the store and run voxelize again"
            ) from error

    def _open(self, name: str) -> ArrayRead:
        if self._process != os.getpid():
            self._arrays, self._process = {}, os.getpid()
        if name not in self._arrays:
            largest = self.layout.most_counts if name == "voxels" else 255
            shape = self.layout.shapes[name]
            self._arrays[name] = self._reader.open_array(f"{self.path}/{name}", shape, largest)
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
