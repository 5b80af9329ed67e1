"""Writing a store: atomically, shard by shard, with a digest of its contents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.raw.spikes import PackedSpikes
from vrtspike.deblurring.data.store.layout import StoreLayout
from vrtspike.deblurring.data.store.voxels import GainMeter
from vrtspike.io.files import atomic_path, json_digest

_BLOCK_BYTES = 16_384
"""Blosc decodes blocks of this size. It would take a whole chunk for one, and the memory that it
needs meanwhile would leave larger holes between the chunks that a cache keeps
(``benchmarks/results/chunks.csv``)."""


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
    """See :class:`vrtspike.deblurring.data.store.voxels.GainMeter`; None without spikes."""


def write_store(
    path: str | os.PathLike[str], layout: StoreLayout, frames: Iterable[StoredFrame]
) -> WrittenStore:
    """Write a store atomically, holding the frames of one shard in memory at a time.

    Args:
        path: the store's folder; an older store there is replaced once the new one is complete.
        layout: what the frames are.
        frames: the frames, in order; ``bits`` may hold fewer than T steps.

    Raises:
        OSError: if there is no space left.
        DataError: if the spikes give no gain (there are none).
        ValueError: if a frame's shapes or the number of frames do not follow ``layout``.
    """
    digest, meter, gain = ContentDigest(layout), GainMeter(), None
    size = layout.shard_frames
    buffers = {
        name: np.zeros((size, *shape[1:]), np.uint8) for name, shape in layout.shapes.items()
    }
    with atomic_path(path) as temporary:
        group, arrays = _create_arrays(temporary, layout)
        count = 0
        for count, frame in enumerate(frames, start=1):
            digest.add(frame)
            if frame.voxels is not None and frame.bits is not None:
                exposure, width = layout.exposures[count - 1], frame.voxels.shape[2]
                # Voxels hold the context, too.
                seen = PackedSpikes(frame.bits[exposure.start : exposure.stop], width)
                meter.add(frame.blur, seen.total(), exposure.steps)
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
    return WrittenStore(digest.hexdigest(gain), gain)


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
        blosc = [BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle", blocksize=_BLOCK_BYTES)]
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
