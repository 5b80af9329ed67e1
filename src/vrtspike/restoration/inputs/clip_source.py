"""Clips that are read piece by piece, among them the sequences of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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


class FrameSource(ABC):
    """A clip that can be read piece by piece.

    Attributes:
        names: names of the frames, in order.
        size: height and width of the frames.
        ratio: pixels of a frame for each spike pixel along each side; 1 without spikes.
        bits: bits per channel of the frames, 8 or 16.
    """

    bits = 8

    def __init__(self, names: Sequence[str], size: tuple[int, int], ratio: Fraction) -> None:
        self.names = names
        self.size = size
        self.ratio = ratio

    @abstractmethod
    def read(self, frames: slice) -> Frames:
        """Return consecutive frames; called from the threads of :func:`read_ahead`."""

    @abstractmethod
    def gain(self) -> float | None:
        """Return the brightness of a spike rate of 1; None without spikes.

        The gain is measured on the whole clip (:mod:`~vrtspike.data.voxels.gain`), so all files
        are read.
        """


class StoredSequence(FrameSource):
    """The sequence of a store."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.layout.frames, store.layout.rgb_size, store.layout.ratio)
        self._store = store

    def read(self, frames: slice) -> Frames:
        """Return consecutive frames."""
        layout = self._store.layout
        whole = slice(None)
        window = {"blur": self._store.read("blur", frames, whole, whole)}
        if layout.spike_size is not None:
            window["counts"] = self._store.read("voxels", frames, whole, whole)
            window["bin_steps"] = bin_table(layout.binned[frames], layout.bins)
        return window

    def gain(self) -> float | None:
        """Return the gain in the attributes of the store; no frame is read."""
        return self._store.gain


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
