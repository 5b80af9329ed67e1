"""Clips that are read piece by piece, among them the sequences of a store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.store.reading import Store
from vrtspike.data.voxels.bins import bin_table

Frames = Mapping[str, NDArray[Any]]
"""Consecutive frames of a clip, uint8: ``blur`` (T, H, W, 3) RGB, of 16-bit pictures float32 from 0
to 255; with spikes also ``counts`` (T, K, h, w), spikes per bin, and ``bin_steps`` (T, K), spike
steps of each bin."""


@dataclass(frozen=True)
class FrameSource:
    """A clip that can be read piece by piece.

    Attributes:
        names: names of the frames, in order.
        size: height and width of the frames.
        ratio: pixels of a frame for each spike pixel along each side; 1 without spikes.
        read: returns consecutive frames; called from the threads of :func:`read_ahead`.
        gain: returns the brightness of a spike rate of 1, None without spikes. The gain is measured
            on the whole clip (:mod:`~vrtspike.data.voxels.gain`), so all files are read.
    """

    names: Sequence[str]
    size: tuple[int, int]
    ratio: Fraction
    read: Callable[[slice], Frames]
    gain: Callable[[], float | None]


def stored_sequence(store: Store) -> FrameSource:
    """Open the sequence of a store for reading."""
    layout = store.layout
    whole = slice(None)

    def read(frames: slice) -> Frames:
        window = {"blur": store.read("blur", frames, whole, whole)}
        if layout.spike_size is not None:
            window["counts"] = store.read("voxels", frames, whole, whole)
            window["bin_steps"] = bin_table(layout.binned[frames], layout.bins)
        return window

    return FrameSource(layout.frames, layout.rgb_size, layout.ratio, read, lambda: store.gain)


def stored_blurry_frame(store: Store, frame: int) -> NDArray[np.uint8]:
    """Return one blurry frame of a store, uint8 (H, W, 3)."""
    return store.read("blur", slice(frame, frame + 1), slice(None), slice(None))[0]


def stored_sharp_frame(store: Store, frame: int) -> NDArray[np.uint8]:
    """Return one sharp frame of a store, uint8 (H, W, 3)."""
    return store.read("sharp", slice(frame, frame + 1), slice(None), slice(None))[0]


def read_ahead(
    times: Sequence[slice], read: Callable[[slice], Frames], readers: int
) -> Iterator[Frames]:
    """Read slices in order, up to ``readers`` of them ahead in threads.

    Args:
        times: the slices.
        read: returns the frames of one slice.
        readers: number of threads; 0 reads a slice when it is needed.
    """
    with ThreadPoolExecutor(max(1, readers)) as pool:
        queue: deque[Future[Frames]] = deque()
        for time in times:
            queue.append(pool.submit(read, time))
            if len(queue) > readers:
                yield queue.popleft().result()
        for window in queue:
            yield window.result()
