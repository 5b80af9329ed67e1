"""A clip as it is read: crops of consecutive frames with their spikes, as small integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NotRequired, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.store.reading import Store
from vrtspike.data.voxels.bins import bin_edges, bin_table
from vrtspike.system.rounding import divide_up

RatioChange = Literal["", "camera", "sensor"]
"""Part that gets half as many rows and columns: none, the camera, or the sensor."""


class Sample(TypedDict):
    """A clip for training or evaluation. T frames, K bins, H x W RGB pixels, h x w spike pixels.

    With DATA.NEIGHBOURS the spikes are those of T + 2 frames, one more on either side.
    """

    blur: torch.Tensor
    """uint8 (T, H, W, 3)."""
    sharp: torch.Tensor
    """uint8 (T, H, W, 3)."""
    counts: NotRequired[torch.Tensor]
    """uint8 (T, K, h, w): spikes per bin; absent, as the next two, in a data set without spikes."""
    bin_steps: NotRequired[torch.Tensor]
    """uint8 (T, K): spike steps of each bin."""
    gain: NotRequired[torch.Tensor]
    """float32 (): brightness of a spike rate of 1."""
    sequence: str
    """``<split>/<sequence>``."""
    start: int
    """Index of the first frame in its sequence."""
    neighbors: NotRequired[torch.Tensor]
    """bool (2,): true if there are spikes of the frame before, and of the one after, or of another
    frame in their place; only with DATA.NEIGHBOURS."""
    ratio_change: NotRequired[RatioChange]
    """Change of the resolution, drawn for a batch that begins with this clip; only with
    DATA.RATIO_AUGMENT."""


def read_clip(
    store: Store,
    name: str,
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
        name: name of the sequence, ``<split>/<sequence>``.
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
    layout = store.layout
    sample = Sample(
        blur=torch.from_numpy(store.read("blur", frames, rows, columns)),
        sharp=torch.from_numpy(store.read("sharp", frames, rows, columns)),
        sequence=name,
        start=frames.start,
    )
    if layout.spike_size is None:
        return sample
    counted = frames
    if neighbors:
        counted = slice(max(frames.start - 1, 0), min(frames.stop + 1, len(layout.frames)))
    sensor_rows = on_sensor(rows, layout.ratio)
    sensor_columns = on_sensor(columns, layout.ratio)
    if precomputed:
        counts = store.read("voxels", counted, sensor_rows, sensor_columns)
    else:
        counts = _count_spikes(store, counted, sensor_rows, sensor_columns)
    sample["counts"] = torch.from_numpy(counts)
    sample["bin_steps"] = torch.from_numpy(bin_table(layout.binned[counted], layout.bins))
    sample["gain"] = torch.tensor(store.gain, dtype=torch.float32)
    return sample


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
    last_byte = divide_up(columns.stop, 8)
    # Columns of the crop among those of the whole bytes that are read.
    read_columns = columns.stop - 8 * first_byte
    skipped_columns = columns.start - 8 * first_byte
    packed = store.read("bits", frames, rows, slice(first_byte, last_byte))
    counts = []
    for bits, exposure in zip(packed, store.layout.binned[frames], strict=True):
        spikes = PackedSpikes(bits[: exposure.stop], read_columns)
        voxels = spikes.counts(bin_edges(exposure, store.layout.bins))
        counts.append(voxels[..., skipped_columns:])
    return np.stack(counts)


def pad_absent_neighbors(sample: Sample, *, before: bool, after: bool) -> None:
    """Pad the places of absent neighbours, and record which ones a sample has spikes of.

    Args:
        sample: changed in place.
        before: true if it has spikes of the frame before its first one.
        after: true if it has spikes of the frame after its last one.
    """
    padding_before = 0 if before else 1
    padding_after = 0 if after else 1
    sample["counts"] = functional.pad(
        sample["counts"], (0, 0, 0, 0, 0, 0, padding_before, padding_after)
    )
    # Each bin has one step, so that nothing is divided by zero.
    sample["bin_steps"] = functional.pad(
        sample["bin_steps"], (0, 0, padding_before, padding_after), value=1
    )
    sample["neighbors"] = torch.tensor([before, after])
