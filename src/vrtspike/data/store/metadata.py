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
empty, as ``exposures``, and its ``spike_size`` null.

Attributes: ``schema``, ``frames`` (names), ``spike_frames`` (T of each frame),
``exposures`` (start, stop and sharp instant of each, from its first step), ``rgb_size``,
``spike_size``, ``bins``, ``gain`` (brightness of a spike rate of 1, see
:class:`vrtspike.data.voxels.gain.GainEstimator`; null without spikes).

A chunk is a part of one frame, 120 x 128 RGB pixels of 720 x 1280, because a crop reads whole
chunks. Counts shrink seven times and are compressed (lz4 with bit shuffle); frames and bits hardly
shrink and are not (``benchmarks/results/chunks.csv``). Each chunk ends in its CRC-32C, so that
every reader notices damage. The chunks of several frames form one file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from vrtspike.data.exposure import Exposure
from vrtspike.system.rounding import ceil_div

SQUARE = 128
"""Side in RGB pixels of the largest area that a chunk covers."""
MAX_FILE_BYTES = 12_000_000
"""Maximum size of the frames of a file, as pictures or as bits; bounds memory while writing."""
MAX_FILE_FRAMES = 32
"""Maximum frames of a file."""
SCHEMA = 4
"""Version of the format and of its contents: a change of the rule of bins changes it, too."""


@dataclass(frozen=True)
class StoreMetadata:
    """The metadata of a store, known before the first frame is written.

    Attributes:
        frames: names of the frames.
        spike_frames: T, the stored steps of each frame; empty without spikes.
        rgb_size: rows and columns of the frames.
        spike_size: rows and columns of the sensor; None without spikes.
        bins: K, bins of the voxel grid.
        exposures: exposure of each frame, counted from its first stored step; empty without spikes.
    """

    frames: tuple[str, ...]
    spike_frames: tuple[int, ...]
    rgb_size: tuple[int, int]
    spike_size: tuple[int, int] | None
    bins: int
    exposures: tuple[Exposure, ...] = ()

    @property
    def ratio(self) -> Fraction:
        """RGB pixels per spike pixel along each side; 1 without spikes."""
        return Fraction(self.rgb_size[0], (self.spike_size or self.rgb_size)[0])

    @property
    def binned(self) -> tuple[Exposure, ...]:
        """The steps in the bins of each frame: its exposure with the context that is stored."""
        pairs = zip(self.exposures, self.spike_frames, strict=True)
        return tuple(exposure.widened(total, total) for exposure, total in pairs)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each array, by its name."""
        count = len(self.frames)
        shapes: dict[str, tuple[int, ...]] = {
            "blur": (count, *self.rgb_size, 3),
            "sharp": (count, *self.rgb_size, 3),
        }
        if self.spike_size is not None:
            height, width = self.spike_size
            shapes["voxels"] = (count, self.bins, height, width)
            shapes["bits"] = (count, max(self.spike_frames), height, ceil_div(width, 8))
        return shapes

    @property
    def chunks(self) -> dict[str, tuple[int, ...]]:
        """Shape of a chunk of each array: a part of one frame."""
        side = max(8, int(SQUARE / self.ratio) // 8 * 8)
        steps = max(self.spike_frames, default=0)
        limits = {
            "blur": (SQUARE, SQUARE, 3),
            "sharp": (SQUARE, SQUARE, 3),
            "voxels": (self.bins, side, side),
            "bits": (steps, side, side // 8),
        }
        chunks = {}
        for name, (_, *sizes) in self.shapes.items():
            chunk = [1]
            for size, limit in zip(sizes, limits[name], strict=True):
                # The fewest equal parts that are no longer than the limit.
                chunk.append(ceil_div(size, ceil_div(size, limit)))
            chunks[name] = tuple(chunk)
        return chunks

    @property
    def frames_per_file(self) -> int:
        """Frames that share a file."""
        frame_bytes = [
            math.prod(shape[1:]) for name, shape in self.shapes.items() if name != "voxels"
        ]
        return max(1, min(MAX_FILE_BYTES // max(frame_bytes), MAX_FILE_FRAMES, len(self.frames)))

    @classmethod
    def from_attributes(cls, attributes: dict[str, Any]) -> StoreMetadata:
        """Return the metadata from the attributes of a group, read from JSON."""
        spike_size = attributes["spike_size"]
        return cls(
            frames=tuple(attributes["frames"]),
            spike_frames=tuple(attributes["spike_frames"]),
            rgb_size=tuple(attributes["rgb_size"]),
            spike_size=None if spike_size is None else tuple(spike_size),
            bins=attributes["bins"],
            exposures=tuple(Exposure(*exposure) for exposure in attributes["exposures"]),
        )
