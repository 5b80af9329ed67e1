"""Clips that are read piece by piece, among them the sequences of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.store.reading import Store
from vrtspike.data.voxels.bins import bin_table

if TYPE_CHECKING:
    import torch

    from vrtspike.data.clips.samples import BinnedSpikes


@dataclass(frozen=True)
class ClipWindow:
    """Consecutive frames of a clip with their spikes. In a batch of tiles, B is the first axis.

    Attributes:
        blur: uint8 (T, H, W, 3) RGB; of 16-bit pictures float32 from 0 to 255.
        spikes: spikes of these frames, or of T + 2, one more on either side; None without.
    """

    blur: torch.Tensor
    spikes: BinnedSpikes | None = None


class ClipSource(ABC):
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
    def blurry_frames(self, frames: slice) -> NDArray[Any]:
        """Return consecutive frames, as :attr:`ClipWindow.blur`."""

    @abstractmethod
    def count_spikes(self, frames: slice) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return spikes per bin (T, K, h, w) and steps of each bin (T, K) of consecutive frames."""

    @abstractmethod
    def gain(self) -> float | None:
        """Return the brightness of a spike rate of 1; None without spikes.

        The gain is measured on the whole clip (:mod:`~vrtspike.data.voxels.gain`), so all files
        are read.
        """

    def read(self, frames: slice, *, neighbors: bool = False) -> ClipWindow:
        """Return consecutive frames; called from the threads of :func:`read_ahead`.

        Args:
            frames: positions of the frames.
            neighbors: read the spikes of the frame before and of the one after, too.
        """
        # PyTorch is slow to import, and clips are opened and checked without it.
        import torch

        from vrtspike.data.clips.neighbors import with_neighbors
        from vrtspike.data.clips.samples import binned_spikes, pad_absent_neighbors

        # A copy: arrays of users may be read-only, which PyTorch does not support.
        blur = torch.tensor(self.blurry_frames(frames))
        gain = self.gain()
        if gain is None:
            return ClipWindow(blur)
        counted = with_neighbors(frames, len(self.names)) if neighbors else frames
        counts, bin_steps = self.count_spikes(counted)
        spikes = binned_spikes(counts, bin_steps, gain, frames, counted)
        return ClipWindow(blur, pad_absent_neighbors(spikes) if neighbors else spikes)


class StoreClipSource(ClipSource):
    """The sequence of a store."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.metadata.frames, store.metadata.rgb_size, store.metadata.ratio)
        self._store = store

    def blurry_frames(self, frames: slice) -> NDArray[np.uint8]:
        """Return consecutive frames, uint8 (T, H, W, 3)."""
        return self._store.read("blur", frames, slice(None), slice(None))

    def count_spikes(self, frames: slice) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the stored counts and the steps of their bins."""
        metadata = self._store.metadata
        counts = self._store.read("voxels", frames, slice(None), slice(None))
        return counts, bin_table(metadata.binned[frames], metadata.bins)

    def gain(self) -> float | None:
        """Return the gain in the attributes of the store; no frame is read."""
        return self._store.gain


def read_ahead(
    times: Sequence[slice], read: Callable[[slice], ClipWindow], readers: int
) -> Iterator[ClipWindow]:
    """Read slices in order, up to ``readers`` of them ahead in threads.

    Args:
        times: the slices.
        read: returns the frames of one slice.
        readers: number of threads; 0 reads a slice when it is needed.
    """
    with ThreadPoolExecutor(max(1, readers)) as pool:
        queue: deque[Future[ClipWindow]] = deque()
        for time in times:
            queue.append(pool.submit(read, time))
            if len(queue) > readers:
                yield queue.popleft().result()
        for window in queue:
            yield window.result()
