"""Restore a clip of any length and size with a trained model, within bounded memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.deblurring.data.clips.batch import prepare_batch
from vrtspike.deblurring.data.store.voxels import Statistics
from vrtspike.deblurring.evaluation.sources import FrameSource, SourceFrames
from vrtspike.deblurring.evaluation.tiling import Area, Progress, Tiling, restore_tiled
from vrtspike.deblurring.frames import to_uint8
from vrtspike.deblurring.models import build_model
from vrtspike.deblurring.rgb_images import Image
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.settings.schema import TileSettings
from vrtspike.errors import ConfigError
from vrtspike.weights import load_trained

_WINDOW = 8
"""Pixels that the network shrinks to one, and a side of its windows."""


def load_model(weights: str | Path, settings: Settings, device: torch.device) -> nn.Module:
    """Build the model of a preset and load trained weights, in float32, ready for inference.

    Args:
        weights: ``weights.safetensors`` of a run.
        settings: the settings it was trained with.
        device: where it shall compute.

    Raises:
        RunError: if the file is missing or damaged, or holds the weights of another model.
    """
    model = build_model(
        settings.MODEL,
        bins=settings.DATA.K,
        clip_len=settings.DATA.CLIP_LEN,
        crop_size=settings.DATA.CROP_SIZE,
        pretrained=False,
    )
    load_trained(model, weights)
    return model.float().eval().to(device)


def products_in(dtype: torch.dtype, device: torch.device) -> torch.autocast:
    """Matrix products of the body in this type: autocast where it is a half type."""
    return torch.autocast(device.type, dtype, enabled=dtype != torch.float32)


def tiling_for(tile: TileSettings, clip_len: int) -> Tiling:
    """The tiling that TEST.TILE asks for.

    Of a temporal window a sixth is shared with the next, at least one frame: two of 12, as the
    authors of VRT do.

    Args:
        tile: the settings.
        clip_len: length of a temporal window where the settings name none.
    """
    frames = tile.FRAMES or clip_len
    return Tiling(tile.SIZE, tile.OVERLAP, frames, min(max(1, frames // 6), frames // 2))


def tile_unit(ratio: int) -> int:
    """What sides of tiles are multiples of: whole windows of attention, and pixels of the sensor.

    Args:
        ratio: the frame's pixels for each spike pixel along each side.
    """
    return math.lcm(_WINDOW, ratio)


def restore_frames(
    model: nn.Module,
    source: FrameSource,
    statistics: Statistics | None,
    device: torch.device,
    tiling: Tiling,
    *,
    tiles_at_once: int = 1,
    readers: int = 0,
    dtype: torch.dtype = torch.float32,
    wanted: Collection[int] | None = None,
    progress: Progress | None = None,
) -> Iterator[Image]:
    """Restore all frames of a clip, in order.

    Args:
        model: called as ``model(blur, voxels)`` with (B, T, 3, H, W) and (B, T, K, H, W).
        source: the blurry frames and their spikes, if any.
        statistics: what the training data was standardised with; None if it had no spikes.
        device: where the model is.
        tiling: how the clip is cut.
        tiles_at_once: tiles restored together.
        readers: temporal windows read ahead in threads.
        dtype: type of matrix products, by autocast where it is a half type.
        wanted: the frames to restore, by their positions; None for all. What is restored of them is
            the same.
        progress: called with the tiles done and their total.

    Yields:
        uint8 (H, W, 3) RGB, one per frame that is wanted.

    Raises:
        ConfigError: if tiles would not fall on whole pixels of the sensor.
        DataError: if a frame cannot be read.
    """
    ratio, gain = source.ratio, None if statistics is None else source.gain()
    if tiling.size % ratio or tiling.overlap % ratio:
        raise ConfigError(
            f"TEST.TILE: SIZE {tiling.size} and OVERLAP {tiling.overlap} must be multiples of "
            f"{ratio}, the frame's pixels for each spike pixel"
        )

    def restore(window: SourceFrames, areas: Sequence[Area]) -> torch.Tensor:
        batch = {"blur": _stack([window.blur[:, rows, columns] for rows, columns in areas])}
        counts, steps = window.counts, window.bin_steps
        if counts is not None and steps is not None and gain is not None:
            parts = [(_part(rows, ratio), _part(columns, ratio)) for rows, columns in areas]
            batch["counts"] = _stack([counts[..., rows, columns] for rows, columns in parts])
            batch["bin_steps"] = _stack([steps] * len(areas))
            batch["gain"] = torch.full((len(areas),), gain, dtype=torch.float32)
        clip = prepare_batch(batch, statistics, device)
        with torch.inference_mode(), products_in(dtype, device):
            output: torch.Tensor = model(clip.blur, clip.voxels)
        return output

    frames = restore_tiled(
        source.read,
        restore,
        (len(source.names), *source.size),
        tiling,
        tiles_at_once=tiles_at_once,
        readers=readers,
        unit=tile_unit(ratio),
        wanted=wanted,
        progress=progress,
    )
    for frame in frames:
        yield to_uint8(frame)


def _part(pixels: slice, ratio: int) -> slice:
    return slice(pixels.start // ratio, pixels.stop // ratio)


def _stack(arrays: Sequence[NDArray[np.generic]]) -> torch.Tensor:
    return torch.from_numpy(np.stack(arrays))
