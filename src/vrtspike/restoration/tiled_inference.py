"""Restore a clip of any length and size with a trained model, within bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.data.clips.batches import model_inputs
from vrtspike.data.clips.samples import BinnedSpikes, on_sensor
from vrtspike.data.rgb_images import to_image
from vrtspike.data.voxels.normalization import VoxelStatistics
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.weights import load_trained_weights
from vrtspike.models import build_model
from vrtspike.restoration.inference.tiling import (
    TileModel,
    Tiling,
    WeightedWindow,
    tile_unit,
    tile_windows,
)
from vrtspike.restoration.inputs.clip_source import ClipSource, ClipWindow, read_ahead
from vrtspike.runs.published import require_published
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.system.progress_bar import ProgressCallback

Tile: TypeAlias = tuple[WeightedWindow, WeightedWindow]
"""Rows and columns of a spatial tile."""


def load_model(
    weights: str | Path, settings: DeblurringSettings, device: torch.device
) -> nn.Module:
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
    load_trained_weights(model, weights)
    require_published(weights)
    return model.float().eval().to(device)


def torch_tile_model(
    model: nn.Module,
    statistics: VoxelStatistics | None,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> TileModel:
    """Wrap a PyTorch network for :func:`restore_frames`.

    Args:
        model: called as ``model(blur, voxels)`` with frames (B, T, 3, H, W) and voxels, see
            :meth:`vrtspike.models.restorer.Restorer.forward`.
        statistics: mean and deviation that the spikes of the training were standardised with; None
            if it had no spikes.
        device: the device of the model.
        dtype: type of matrix products; a half type by autocast.
    """

    def restore_batch(batch: ClipWindow) -> NDArray[np.float32]:
        blur, voxels = model_inputs(batch.blur, batch.spikes, statistics, device)
        autocast = torch.autocast(device.type, dtype, enabled=dtype != torch.float32)
        with torch.inference_mode(), autocast:
            output: torch.Tensor = model(blur, voxels)
        restored: NDArray[np.float32] = output.float().cpu().numpy()
        return restored

    return restore_batch


def restore_frames(
    tile_model: TileModel,
    source: ClipSource,
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
        tile_model: restores a batch of tiles; :func:`torch_tile_model` wraps a network in PyTorch.
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
    count = len(source.names)
    wanted_indices = set(range(count) if wanted is None else wanted)
    unit = tile_unit(source.ratio.numerator)
    cut_windows, rows, columns = tile_windows((count, *source.size), tiling, unit)
    windows = [
        window for window in cut_windows if not wanted_indices.isdisjoint(_positions(window))
    ]
    if not windows:
        return
    # Measured once, not in several of the threads that read ahead.
    source.gain()
    tiles = list(itertools.product(rows, columns))
    groups = [tiles[first : first + tiles_at_once] for first in range(0, len(tiles), tiles_at_once)]
    total = len(windows) * len(tiles)
    done = 0
    read = partial(source.read, neighbors=tiling.neighbors)
    inputs = read_ahead([time for time, _ in windows], read, readers)
    # Weighted sums of restored tiles, of the frames that a later window may still change.
    sums: dict[int, NDArray[np.float32]] = {}
    next_starts = [time.start for time, _ in windows[1:]] + [count]
    for window, content, next_start in zip(windows, inputs, next_starts, strict=True):
        for frame in _positions(window):
            sums.setdefault(frame, np.zeros((3, *source.size), np.float32))
        for group in groups:
            batch = _batch(content, group, source.ratio)
            restored_tiles = _call_model(tile_model, batch, tiling, unit)
            for tile, restored in zip(group, restored_tiles, strict=True):
                _add_tile(sums, window, tile, restored)
            done += len(group)
            if progress is not None:
                progress(done, total)
        for frame in sorted(frame for frame in sums if frame < next_start):
            whole = sums.pop(frame)
            if frame in wanted_indices:
                _require_finite(whole, source.names[frame])
                yield whole if bits is None else to_image(torch.from_numpy(whole), bits)


def _positions(window: WeightedWindow) -> range:
    """Return the positions of the frames of a temporal window."""
    time, _ = window
    return range(time.start, time.stop)


def _add_tile(
    sums: Mapping[int, NDArray[np.float32]],
    window: WeightedWindow,
    tile: Tile,
    restored: NDArray[np.float32],
) -> None:
    """Add the restored frames of a window in one tile, (T, 3, h, w), to the frames' sums."""
    (rows, row_weights), (columns, column_weights) = tile
    weights = np.outer(row_weights, column_weights)
    for frame, image, weight in zip(_positions(window), restored, window[1], strict=True):
        sums[frame][:, rows, columns] += image * weights * weight


def _require_whole_pixels(tiling: Tiling, ratio: Fraction) -> None:
    """Reject tiles that do not fall on whole pixels of the sensor.

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


def _call_model(
    tile_model: TileModel, batch: ClipWindow, tiling: Tiling, unit: int
) -> NDArray[np.float32]:
    """Restore a batch of tiles.

    Raises:
        RunError: if the memory of the device is too small.
    """
    try:
        return tile_model(batch)
    except torch.OutOfMemoryError as error:
        tiles_at_once, frames = batch.blur.shape[:2]
        remedies = []
        if tiles_at_once > 1:
            remedies.append(f"lower TEST.BATCH_SIZE, {tiles_at_once}")
        if tiling.size == 0 or tiling.size > unit:
            remedies.append("choose smaller tiles (tile, TEST.TILE.SIZE)")
        if frames > 1:
            remedies.append(f"restore fewer than {frames} frames at once (TEST.TILE.FRAMES)")
        remedies.append("end other programs, or compute on another device")
        raise RunError(
            f"the memory of the device is full with {tiling.describe()}: {'; '.join(remedies)} "
            f"({error})"
        ) from error


def _require_finite(restored: NDArray[np.float32], name: str) -> None:
    """Reject a restored frame with values that are not finite.

    Raises:
        RunError: naming it.
    """
    if not np.isfinite(restored).all():
        raise RunError(
            f"frame {name}: the model gives values that are not finite; its training has "
            "diverged, or the precision has to be float32"
        )


def _batch(window: ClipWindow, tiles: Sequence[Tile], ratio: Fraction) -> ClipWindow:
    """Return tiles of equal size as one batch."""
    areas = [(rows, columns) for (rows, _), (columns, _) in tiles]
    blur = torch.stack([window.blur[:, rows, columns] for rows, columns in areas])
    if window.spikes is None:
        return ClipWindow(blur)
    spikes = []
    for rows, columns in areas:
        counts = window.spikes.counts[..., on_sensor(rows, ratio), on_sensor(columns, ratio)]
        spikes.append(window.spikes._replace(counts=counts))
    return ClipWindow(blur, BinnedSpikes(*map(torch.stack, zip(*spikes, strict=True))))
