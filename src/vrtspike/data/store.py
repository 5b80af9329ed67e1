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

Attributes: ``schema``, ``frames`` (names), ``spike_frames`` (T of each frame), ``rgb_size``,
``spike_size``, ``bins``. Each array is cut into chunks for random crops (about 128 x 128 RGB
pixels of one frame), and all chunks of one frame form one file (a shard).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.cache import ChunkReader
from vrtspike.errors import DataError
from vrtspike.files import atomic_path, json_digest

ARRAYS = ("blur", "sharp", "voxels", "bits")
RGB_CHUNK = 128
"""Side of a chunk in RGB pixels; sensor arrays use the same area at their own scale."""


@dataclass(frozen=True)
class StoreLayout:
    """What a store holds, known before the first frame is written."""

    frames: tuple[str, ...]
    spike_frames: tuple[int, ...]
    rgb_size: tuple[int, int]
    spike_size: tuple[int, int]
    bins: int

    def __post_init__(self) -> None:
        """Refuse a layout without frames."""
        if len(self.frames) != len(self.spike_frames) or not self.frames:
            raise ValueError("a store needs at least one frame, and one spike count for each")

    @property
    def scale(self) -> int:
        """RGB pixels per spike pixel along each side."""
        return self.rgb_size[0] // self.spike_size[0]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each array."""
        count, (height, width) = len(self.frames), self.spike_size
        return {
            "blur": (count, *self.rgb_size, 3),
            "sharp": (count, *self.rgb_size, 3),
            "voxels": (count, self.bins, height, width),
            "bits": (count, max(self.spike_frames), height, -(-width // 8)),
        }

    @property
    def chunks(self) -> dict[str, tuple[int, ...]]:
        """Shape of a chunk of each array."""
        side = max(8, RGB_CHUNK // self.scale)
        rgb = (1, RGB_CHUNK, RGB_CHUNK, 3)
        return {
            "blur": rgb,
            "sharp": rgb,
            "voxels": (1, self.bins, side, side),
            "bits": (1, max(self.spike_frames), side, side // 8),
        }

    def attributes(self) -> dict[str, Any]:
        """The group's attributes, as JSON."""
        return {
            "schema": 1,
            "frames": list(self.frames),
            "spike_frames": list(self.spike_frames),
            "rgb_size": list(self.rgb_size),
            "spike_size": list(self.spike_size),
            "bins": self.bins,
        }

    @classmethod
    def from_attributes(cls, attributes: dict[str, Any]) -> StoreLayout:
        """The inverse of :meth:`attributes`."""
        return cls(
            frames=tuple(attributes["frames"]),
            spike_frames=tuple(attributes["spike_frames"]),
            rgb_size=(attributes["rgb_size"][0], attributes["rgb_size"][1]),
            spike_size=(attributes["spike_size"][0], attributes["spike_size"][1]),
            bins=attributes["bins"],
        )


@dataclass(frozen=True)
class StoredFrame:
    """The arrays of one frame, shaped as one entry of the store's arrays."""

    blur: NDArray[np.uint8]
    sharp: NDArray[np.uint8]
    voxels: NDArray[np.uint8]
    bits: NDArray[np.uint8]


def pack_rows(spikes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack spikes (T, h, w) along their rows: uint8 (T, h, ceil(w / 8)), lowest bit first."""
    return np.packbits(spikes, axis=2, bitorder="little")


def write_store(
    path: str | os.PathLike[str], layout: StoreLayout, frames: Iterable[StoredFrame]
) -> str:
    """Write a store atomically, holding one frame in memory at a time.

    Args:
        path: the store's folder; an older store there is replaced once the new one is complete.
        layout: what the frames are.
        frames: the frames, in order; ``bits`` may hold fewer than T steps.

    Returns:
        Digest (SHA-256) of the contents and the layout; it does not depend on chunks, codec or
        versions of libraries.

    Raises:
        ValueError: if a frame's shapes or the number of frames do not follow ``layout``.
    """
    # zarr is imported here because planning and reading with tensorstore do without it.
    import zarr
    from zarr.codecs import BloscCodec

    digest = hashlib.sha256(json_digest(layout.attributes()).encode())
    with atomic_path(path) as temporary:
        group = zarr.create_group(temporary, zarr_format=3, attributes=layout.attributes())
        arrays = {}
        for name, shape in layout.shapes.items():
            chunk = layout.chunks[name]
            pieces = zip(shape[1:], chunk[1:], strict=True)
            arrays[name] = group.create_array(
                name,
                shape=shape,
                chunks=chunk,
                shards=(1, *(-(-size // piece) * piece for size, piece in pieces)),
                dtype="uint8",
                compressors=BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"),
                fill_value=0,
            )
        count = 0
        for count, frame in enumerate(frames, start=1):
            steps = layout.spike_frames[count - 1]
            for name, shape in layout.shapes.items():
                values: NDArray[np.uint8] = getattr(frame, name)
                expected = (steps, *shape[2:]) if name == "bits" else shape[1:]
                if values.shape != expected or values.dtype != np.uint8:
                    raise ValueError(f"{name} of frame {count}: {values.shape} is not {expected}")
                digest.update(np.ascontiguousarray(values).data)
                arrays[name][count - 1, : len(values)] = values
        if count != len(layout.frames):
            raise ValueError(f"{count} frames given, the layout names {len(layout.frames)}")
    return digest.hexdigest()


class Store:
    """A store opened for reading.

    Arrays are opened on first use and once per process: the object can be sent to worker processes,
    where it opens its own (a tensorstore handle must not cross a fork).
    """

    def __init__(self, path: str | os.PathLike[str], reader: ChunkReader | None = None) -> None:
        """Read the store's attributes.

        Args:
            path: the store's folder.
            reader: opens the arrays; None is tensorstore without a cache.

        Raises:
            DataError: if there is no store or it was written by another version of the project.
        """
        self.path = Path(path)
        self._reader = reader or ChunkReader()
        self._arrays: dict[str, Any] = {}
        self._process = os.getpid()
        try:
            metadata = json.loads((self.path / "zarr.json").read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError) as error:
            raise DataError(f"{self.path}: no readable store; run voxelize again") from error
        attributes = metadata.get("attributes", {})
        if attributes.get("schema") != 1:
            raise DataError(f"{self.path}: not a store of this version; run voxelize again")
        self.layout = StoreLayout.from_attributes(attributes)

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: everything but the open arrays."""
        return {**self.__dict__, "_arrays": {}}

    def read(self, name: str, frames: slice, rows: slice, columns: slice) -> NDArray[np.uint8]:
        """Read a crop of consecutive frames.

        Args:
            name: one of :data:`ARRAYS`.
            frames: which frames.
            rows: which rows, in the array's own pixels.
            columns: which columns (of ``bits``: which bytes).

        Returns:
            uint8, the crop with the array's axes.

        Raises:
            DataError: if a chunk cannot be read or decoded.
        """
        axes: Sequence[slice] = (frames, rows, columns)
        if name in ("voxels", "bits"):
            axes = (frames, slice(None), rows, columns)
        array = self._open(name)
        try:
            if self._reader.reader == "tensorstore":
                return np.asarray(array[tuple(axes)].read().result(), dtype=np.uint8)
            return np.asarray(array[tuple(axes)], dtype=np.uint8)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"{self.path}/{name}: frames {frames.start} to {frames.stop} cannot be read "
                f"({error}); delete the store and run voxelize again"
            ) from error

    def _open(self, name: str) -> Any:  # noqa: ANN401 - a handle of either library
        if self._process != os.getpid():
            self._arrays, self._process = {}, os.getpid()
        if name not in self._arrays:
            self._arrays[name] = self._reader.open_array(self.path / name)
        return self._arrays[name]


def open_store(path: str | os.PathLike[str], reader: ChunkReader | None = None) -> Store:
    """Open a store for reading; see :class:`Store`."""
    return Store(path, reader)
