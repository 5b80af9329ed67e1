"""Restore a clip of any length and size with a trained model, within bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.data.clips.batches import prepare_batch
from vrtspike.data.rgb_images import to_image
from vrtspike.data.store.voxels import Statistics
from vrtspike.io.weights import load_trained
from vrtspike.models import build_model
from vrtspike.restoration.sources import Frames, FrameSource, read_ahead
from vrtspike.restoration.tiling import Progress, Tiling, cut, tile_unit
from vrtspike.runs.published import require_published
from vrtspike.settings import Settings
from vrtspike.system.errors import ConfigError, RunError

Batch: TypeAlias = Mapping[str, NDArray[Any]]
"""Tiles of a clip, as cameras give them (:func:`restore_frames`)."""

Compute: TypeAlias = Callable[[Batch], NDArray[np.float32]]
"""Restores a batch: float32 (B, T, 3, H, W)."""


def load_model(weights: str | Path, settings: Settings, device: torch.device) -> nn.Module:
    """Build the model of a preset and load trained weights, in float32, ready for inference.

    Args:
        weights: ``weights.safetensors`` of a run.
        settings: the settings it was trained with.
        device: where it shall compute.

    Raises:
        RunError: if the file is missing or damaged, was changed since it was
            published, or holds the weights of another model.
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
    """A network in PyTorch as what :func:`restore_frames` calls.

    Args:
        model: called as ``model(blur, voxels)`` with (B, T, 3, H, W) and (B, T, K, H, W).
        statistics: what the training data was standardised with; None if it had no spikes.
        device: where the model is.
        dtype: type of matrix products, by autocast where it is a half type.
    """

    def compute(batch: Batch) -> NDArray[np.float32]:
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
    progress: Progress | None = None,
    rounded: bool = True,
    bits: int = 8,
) -> Iterator[NDArray[Any]]:
    """Restore all frames of a clip, in order.

    Memory stays bounded: the model sees one window at a time, and a restored frame leaves as soon
    as no later window can change it.

    Args:
        compute: gives float32 (B, T, 3, H, W) for a batch of tiles: ``blur`` uint8
            (B, T, H, W, 3), of 16-bit frames float32 from 0 to 255, and, with spikes, ``counts``
            (B, T, K, h, w), ``bin_steps`` uint8 (B, T, K) and ``gain`` float32 (B,);
            :func:`torch_compute` of a network in PyTorch.
        source: the blurry frames and their spikes, if any.
        tiling: how the clip is cut.
        tiles_at_once: tiles of a batch.
        readers: temporal windows read ahead in threads; 0 reads one when it is needed.
        wanted: the frames to restore, by their positions; None for all. Windows that hold none of
            them are left out, and no value of the others changes.
        progress: called with the tiles done and their total.
        rounded: give images of whole numbers; false: what the model gives.
        bits: bits per channel of these images, 8 or 16.

    Yields:
        one per frame that is wanted: uint8 or uint16 (H, W, 3) RGB; where they are not
        rounded float32 (3, H, W), nominally in [0, 1].

    Raises:
        ConfigError: if tiles would not fall on whole pixels of the sensor.
        DataError: if a frame cannot be read.
        RunError: if the memory of the device does not suffice, or the model gives values that are
            not finite.
    """
    ratio, gain = source.ratio, source.gain()
    size, overlap, whole = tiling.size, tiling.overlap, ratio.numerator
    if size < 0 or size % whole or overlap % whole or 0 < size < 2 * overlap:
        raise ConfigError(
            f"TEST.TILE: found SIZE {size} and OVERLAP {overlap}, expected multiples of {whole} "
            f"(frames have {ratio} times the sensor's size), and OVERLAP at most half of SIZE"
        )

    frames, (height, width) = len(source.names), source.size
    every, rows, columns = cut((frames, height, width), tiling, tile_unit(ratio.numerator))
    wanted = range(frames) if wanted is None else wanted
    times = [time for time in every if not set(wanted).isdisjoint(range(frames)[time[0]])]
    tiles = list(itertools.product(rows, columns))
    done = 0
    windows = read_ahead([time for time, _ in times], source.read, readers)
    pending: dict[int, NDArray[np.float32]] = {}
    for number, ((time, shares), window) in enumerate(zip(times, windows, strict=True)):
        for frame in range(frames)[time]:
            pending.setdefault(frame, np.zeros((3, height, width), np.float32))
        for first in range(0, len(tiles), tiles_at_once):
            group = tiles[first : first + tiles_at_once]
            areas = [(row, column) for (row, _), (column, _) in group]
            try:
                results = compute(_batch(window, areas, ratio, gain))
            except torch.OutOfMemoryError as error:
                raise RunError(
                    f"the memory of the device is full with {tiling.describe()}; choose smaller "
                    "ones (--tile, TEST.TILE.SIZE), lower TEST.BATCH_SIZE, or end other programs: "
                    f"{error}"
                ) from error
            done += len(group)
            if progress is not None:
                progress(done, len(times) * len(tiles))
            for ((row, down), (column, across)), result in zip(group, results, strict=True):
                plane = np.outer(down, across)
                for frame, image, share in zip(range(frames)[time], result, shares, strict=True):
                    pending[frame][:, row, column] += image * plane * share
        ready = times[number + 1][0].start if number + 1 < len(times) else frames
        for frame in sorted(frame for frame in pending if frame < ready):
            restored = pending.pop(frame)
            if frame in wanted:
                if not np.isfinite(restored).all():
                    raise RunError(
                        f"frame {source.names[frame]}: the model gives values that are not finite; "
                        "its training has diverged, or --precision has to be float32"
                    )
                yield to_image(torch.from_numpy(restored), bits) if rounded else restored


def _batch(
    window: Frames,
    areas: Sequence[tuple[slice, slice]],
    ratio: Fraction,
    gain: float | None,
) -> Batch:
    """Tiles of equal size, by their rows and columns; spikes where there is a gain."""
    batch = {"blur": np.stack([window["blur"][:, rows, columns] for rows, columns in areas])}
    if gain is not None:
        parts = [
            [slice(int(side.start / ratio), int(side.stop / ratio)) for side in area]
            for area in areas
        ]
        batch["counts"] = np.stack(
            [window["counts"][..., rows, columns] for rows, columns in parts]
        )
        batch["bin_steps"] = np.stack([window["bin_steps"]] * len(areas))
        batch["gain"] = np.full(len(areas), gain, np.float32)
    return batch
