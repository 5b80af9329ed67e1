"""Restore a clip of any length and size with a trained model, within bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.data.clips.batches import prepare_batch
from vrtspike.data.clips.samples import on_sensor
from vrtspike.data.rgb_images import to_image
from vrtspike.data.store.voxels import Statistics
from vrtspike.io.weights import load_trained
from vrtspike.models import build_model
from vrtspike.restoration.inference.tile_batches import Compute, InputArrays
from vrtspike.restoration.inference.tiling import Tiling, WeightedWindow, cut, tile_unit
from vrtspike.restoration.inputs.clip_source import Frames, FrameSource, read_ahead
from vrtspike.runs.published import require_published
from vrtspike.settings import Settings
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.system.progress_bar import ProgressCallback


def load_model(weights: str | Path, settings: Settings, device: torch.device) -> nn.Module:
    """Build the model of a preset and load trained weights, in float32, ready for inference.

    Args:
        weights: ``weights.safetensors`` of a run.
        settings: the settings it was trained with.
        device: the device that computes.

    Raises:
        RunError: if the file is missing or damaged, was changed since it was published, or holds
            the weights of another model.
    """
    model = build_model(settings, pretrained=False)
    load_trained(model, weights)
    require_published(weights)
    return model.float().eval().to(device)


def torch_compute(
    model: nn.Module,
    statistics: Statistics | None,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> Compute:
    """Wrap a PyTorch network for :func:`restore_frames`.

    Args:
        model: called as ``model(blur, voxels)`` with frames (B, T, 3, H, W) and voxels, see
            :meth:`vrtspike.models.restorer.Restorer.forward`.
        statistics: mean and deviation that the spikes of the training were standardised with; None
            if it had no spikes.
        device: the device of the model.
        dtype: type of matrix products; a half type by autocast.
    """

    def compute(batch: InputArrays) -> NDArray[np.float32]:
        tensors = {name: torch.from_numpy(values) for name, values in batch.items()}
        clip = prepare_batch(tensors, statistics, device)
        autocast = torch.autocast(device.type, dtype, enabled=dtype != torch.float32)
        with torch.inference_mode(), autocast:
            output: torch.Tensor = model(clip.blur, clip.voxels)
        restored: NDArray[np.float32] = output.float().cpu().numpy()
        return restored

    return compute


def restore_frames(
    compute: Compute,
    source: FrameSource,
    tiling: Tiling,
    *,
    tiles_at_once: int = 1,
    readers: int = 0,
    wanted: Collection[int] | None = None,
    progress: ProgressCallback | None = None,
    bits: int | None = 8,
) -> Iterator[NDArray[Any]]:
    """Restore all frames of a clip, in order.

    Memory stays bounded: the model sees one window at a time, and a restored frame is given as
    soon as no later window can change it.

    Args:
        compute: restores a batch of tiles; :func:`torch_compute` wraps a network in PyTorch.
        source: the blurry frames and their spikes, if any.
        tiling: windows and tiles of the clip.
        tiles_at_once: tiles of a batch.
        readers: temporal windows read ahead in threads; 0 reads one when it is needed.
        wanted: the frames to restore, by their positions; None for all. Windows without any of
            them are left out, and no value of the others changes.
        progress: called with the tiles done and their total.
        bits: bits per channel of the restored images, 8 or 16; None gives the values of the model,
            not rounded.

    Yields:
        one per wanted frame: uint8 or uint16 (H, W, 3) RGB; without rounding float32 (3, H, W),
        nominally in [0, 1].

    Raises:
        ConfigError: if tiles would not fall on whole pixels of the sensor.
        DataError: if a frame cannot be read.
        RunError: if the memory of the device is too small, or the model gives values that are not
            finite.
    """
    _require_whole_pixels(tiling, source.ratio)
    gain = source.gain()
    count = len(source.names)
    numbers = set(range(count) if wanted is None else wanted)
    unit = tile_unit(source.ratio.numerator)
    cut_windows, rows, columns = cut((count, *source.size), tiling, unit)
    windows = [window for window in cut_windows if not numbers.isdisjoint(_positions(window))]
    tiles = [_Tile(row, column) for row, column in itertools.product(rows, columns)]
    groups = [tiles[first : first + tiles_at_once] for first in range(0, len(tiles), tiles_at_once)]
    total = len(windows) * len(tiles)
    done = 0
    inputs = read_ahead([time for time, _ in windows], source.read, readers)
    sums = _FrameSums(source.size)
    next_starts = [time.start for time, _ in windows[1:]] + [count]
    for window, content, next_start in zip(windows, inputs, next_starts, strict=True):
        for group in groups:
            batch = _batch(content, group, source.ratio, gain)
            for tile, restored in zip(group, _compute_tiles(compute, batch, tiling), strict=True):
                sums.add(window, tile, restored)
            done += len(group)
            if progress is not None:
                progress(done, total)
        for frame, restored in sums.take_before(next_start):
            if frame in numbers:
                _require_finite(restored, source.names[frame])
                yield restored if bits is None else to_image(torch.from_numpy(restored), bits)


def _positions(window: WeightedWindow) -> range:
    """Return the positions of the frames of a temporal window."""
    time, _ = window
    return range(time.start, time.stop)


@dataclass(frozen=True)
class _Tile:
    """A spatial tile: its rows and columns, each with their weights in the result."""

    rows: WeightedWindow
    columns: WeightedWindow

    @cached_property
    def plane(self) -> NDArray[np.float32]:
        """The weight of each pixel of the tile (h, w)."""
        return np.outer(self.rows[1], self.columns[1])

    @property
    def area(self) -> tuple[slice, slice]:
        """Rows and columns of the tile in the frame."""
        return self.rows[0], self.columns[0]


class _FrameSums:
    """Weighted sums of restored tiles, of the frames that a later window may still change.

    Args:
        size: height and width of the frames in pixels.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        self._size = size
        self._frames: dict[int, NDArray[np.float32]] = {}

    def add(self, window: WeightedWindow, tile: _Tile, restored: NDArray[np.float32]) -> None:
        """Add the restored frames of a window in one tile, (T, 3, h, w)."""
        _, weights = window
        rows, columns = tile.area
        for frame, image, weight in zip(_positions(window), restored, weights, strict=True):
            if frame not in self._frames:
                self._frames[frame] = np.zeros((3, *self._size), np.float32)
            self._frames[frame][:, rows, columns] += image * tile.plane * weight

    def take_before(self, position: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Remove and yield the sums that no later window can change.

        Args:
            position: first frame of the next window; sums of the frames before it are complete.

        Yields:
            Position and sum (3, H, W) of each of these frames, in order.
        """
        for frame in sorted(frame for frame in self._frames if frame < position):
            yield frame, self._frames.pop(frame)


def _require_whole_pixels(tiling: Tiling, ratio: Fraction) -> None:
    """Refuse tiles that do not fall on whole pixels of the sensor.

    Raises:
        ConfigError: with the sizes that would fit.
    """
    size = tiling.size
    overlap = tiling.overlap
    whole = ratio.numerator
    if size < 0 or size % whole or overlap % whole or 0 < size < 2 * overlap:
        raise ConfigError(
            f"TEST.TILE: found SIZE {size} and OVERLAP {overlap}, expected multiples of {whole} "
            f"(frames have {ratio} times the sensor's size), and OVERLAP at most half of SIZE"
        )


def _compute_tiles(compute: Compute, batch: InputArrays, tiling: Tiling) -> NDArray[np.float32]:
    """Restore a batch of tiles.

    Raises:
        RunError: if the memory of the device is too small.
    """
    try:
        return compute(batch)
    except torch.OutOfMemoryError as error:
        raise RunError(
            f"the memory of the device is full with {tiling.describe()}; choose smaller "
            "ones (tile, TEST.TILE.SIZE), lower TEST.BATCH_SIZE, or end other programs: "
            f"{error}"
        ) from error


def _require_finite(restored: NDArray[np.float32], name: str) -> None:
    """Refuse a restored frame with values that are not finite.

    Raises:
        RunError: naming it.
    """
    if not np.isfinite(restored).all():
        raise RunError(
            f"frame {name}: the model gives values that are not finite; its training has "
            "diverged, or the precision has to be float32"
        )


def _batch(
    window: Frames, tiles: Sequence[_Tile], ratio: Fraction, gain: float | None
) -> InputArrays:
    """Tiles of equal size as one batch; with spikes if there is a gain."""
    areas = [tile.area for tile in tiles]
    batch = {"blur": np.stack([window["blur"][:, rows, columns] for rows, columns in areas])}
    if gain is not None:
        counts = [
            window["counts"][..., on_sensor(rows, ratio), on_sensor(columns, ratio)]
            for rows, columns in areas
        ]
        batch["counts"] = np.stack(counts)
        batch["bin_steps"] = np.stack([window["bin_steps"]] * len(areas))
        batch["gain"] = np.full(len(areas), gain, np.float32)
    return batch
