"""A clip as it is read: crops of consecutive frames with their spikes, as small integers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.utils.data import default_collate

from vrtspike.data.clips.neighbors import with_neighbors
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.store.reading import Store
from vrtspike.data.voxels.bins import bin_edges, bin_table
from vrtspike.system.rounding import ceil_div


class BinnedSpikes(NamedTuple):
    """The spikes of a clip of T frames in K bins each, on h x w pixels of the sensor.

    With DATA.NEIGHBOURS they are those of T + 2 frames, one more on either side; before
    :func:`pad_absent_neighbors`, of those that there are. In a batch, every tensor has one more
    axis, B, in front.

    Attributes:
        counts: uint8 (T, K, h, w), spikes per bin.
        bin_steps: uint8 (T, K), spike steps of each bin.
        gain: float32 (), brightness of a spike rate of 1.
        has_neighbors: bool (2,), true if there are spikes of the frame before, and of the one
            after, or of another frame in their place; false without DATA.NEIGHBOURS.
    """

    counts: torch.Tensor
    bin_steps: torch.Tensor
    gain: torch.Tensor
    has_neighbors: torch.Tensor


class Sample(NamedTuple):
    """A clip for training or validation: T frames of H x W pixels.

    A named tuple, because PyTorch stacks these and puts them in page-locked memory by itself. In a
    batch, every tensor has one more axis, B, in front.

    Attributes:
        blur: uint8 (T, H, W, 3).
        sharp: uint8 (T, H, W, 3).
        spikes: spikes of the frames; None in a data set without spikes.
    """

    blur: torch.Tensor
    sharp: torch.Tensor
    spikes: BinnedSpikes | None


def read_clip(
    store: Store,
    frames: slice,
    rows: slice,
    columns: slice,
    *,
    precomputed: bool = True,
    neighbors: bool = False,
) -> Sample:
    """Read a clip.

    Args:
        store: store of the sequence.
        frames: indices of the frames.
        rows: rows of the crop, in RGB pixels; both ends are multiples of the numerator of the RGB
            to spike scale.
        columns: columns of the crop, as ``rows``.
        precomputed: read stored counts; False counts the stored spikes of the crop instead, with
            equal results.
        neighbors: read the spikes of the frame before and of the one after as well, if the
            sequence has these frames.

    Raises:
        DataError: if a chunk cannot be read.
    """
    metadata = store.metadata
    blur = torch.from_numpy(store.read("blur", frames, rows, columns))
    sharp = torch.from_numpy(store.read("sharp", frames, rows, columns))
    if metadata.spike_size is None:
        return Sample(blur, sharp, spikes=None)
    counted = with_neighbors(frames, len(metadata.frames)) if neighbors else frames
    sensor_rows = on_sensor(rows, metadata.ratio)
    sensor_columns = on_sensor(columns, metadata.ratio)
    if precomputed:
        counts = store.read("voxels", counted, sensor_rows, sensor_columns)
    else:
        counts = _count_spikes(store, counted, sensor_rows, sensor_columns)
    bin_steps = bin_table(metadata.binned[counted], metadata.bins)
    assert store.gain is not None, "a sequence with spikes has a gain"
    spikes = binned_spikes(counts, bin_steps, store.gain, frames, counted)
    return Sample(blur, sharp, spikes)


def binned_spikes(
    counts: NDArray[np.uint8],
    bin_steps: NDArray[np.uint8],
    gain: float,
    frames: slice,
    counted: slice,
) -> BinnedSpikes:
    """Return the spikes of a clip as tensors that share the memory of the arrays.

    Args:
        counts: (T, K, h, w), spikes per bin.
        bin_steps: (T, K), spike steps of each bin.
        gain: brightness of a spike rate of 1.
        frames: indices of the frames of the clip.
        counted: indices of the frames whose spikes these are, see
            :func:`~vrtspike.data.clips.neighbors.with_neighbors`.
    """
    return BinnedSpikes(
        torch.from_numpy(counts),
        torch.from_numpy(bin_steps),
        torch.tensor(gain, dtype=torch.float32),
        torch.tensor([counted.start < frames.start, counted.stop > frames.stop]),
    )


def on_sensor(pixels: slice, ratio: Fraction) -> slice:
    """Return the rows or columns of the sensor that are covered by those of a frame.

    Args:
        pixels: rows or columns of the frame; both ends are multiples of the ratio's numerator.
        ratio: pixels of a frame for each spike pixel along each side.

    >>> on_sensor(slice(8, 24), Fraction(2))
    slice(4, 12, None)
    """
    return slice(int(pixels.start / ratio), int(pixels.stop / ratio))


def _count_spikes(store: Store, frames: slice, rows: slice, columns: slice) -> NDArray[np.uint8]:
    """Return the stored spikes of a crop, counted per bin: uint8 (T, K, h, w)."""
    first_byte = columns.start // 8
    last_byte = ceil_div(columns.stop, 8)
    # Columns of the crop among those of the whole bytes that are read.
    read_columns = columns.stop - 8 * first_byte
    skipped_columns = columns.start - 8 * first_byte
    packed = store.read("bits", frames, rows, slice(first_byte, last_byte))
    counts = []
    for bits, exposure in zip(packed, store.metadata.binned[frames], strict=True):
        spikes = PackedSpikes(bits[: exposure.stop], read_columns)
        voxels = spikes.counts(bin_edges(exposure, store.metadata.bins))
        counts.append(voxels[..., skipped_columns:])
    return np.stack(counts)


def pad_absent_neighbors(spikes: BinnedSpikes) -> BinnedSpikes:
    """Pad the places of absent neighbours: the spikes become those of T + 2 frames."""
    padding_before, padding_after = (~spikes.has_neighbors).int().tolist()
    counts = functional.pad(spikes.counts, (0, 0, 0, 0, 0, 0, padding_before, padding_after))
    # Each bin has one step, so that nothing is divided by zero.
    bin_steps = functional.pad(spikes.bin_steps, (0, 0, padding_before, padding_after), value=1)
    return spikes._replace(counts=counts, bin_steps=bin_steps)


def stack_samples(samples: Sequence[Sample]) -> Sample:
    """Stack samples of one data set to a batch."""
    blur = default_collate([sample.blur for sample in samples])
    sharp = default_collate([sample.sharp for sample in samples])
    spikes = [sample.spikes for sample in samples]
    return Sample(blur, sharp, None if spikes[0] is None else default_collate(spikes))
