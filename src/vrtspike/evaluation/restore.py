"""Restore a clip of any length and size with a trained model, within bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.config import Settings
from vrtspike.config.schema import TileSettings
from vrtspike.data.clips.batch import prepare_batch
from vrtspike.data.store.voxels import Statistics
from vrtspike.deblurring.frames import to_uint8
from vrtspike.deblurring.metrics.images import Image
from vrtspike.errors import ConfigError
from vrtspike.evaluation.sources import FrameSource, SourceFrames
from vrtspike.evaluation.tiling import Area, Tiling, restore_tiled
from vrtspike.models import build_model
from vrtspike.models.weights import load_trained


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


def tiling_for(tile: TileSettings, clip_len: int) -> Tiling:
    """The tiling that TEST.TILE asks for; a third of a temporal window is shared with the next.

    Args:
        tile: the settings.
        clip_len: length of a temporal window where the settings name none.
    """
    frames = tile.FRAMES or clip_len
    return Tiling(tile.SIZE, tile.OVERLAP, frames, frames // 3)


def restore_frames(
    model: nn.Module,
    source: FrameSource,
    statistics: Statistics | None,
    device: torch.device,
    tiling: Tiling,
    *,
    tiles_at_once: int = 1,
    readers: int = 0,
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

    Yields:
        uint8 (H, W, 3) RGB, one per frame.

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
        with torch.inference_mode():
            output: torch.Tensor = model(clip.blur, clip.voxels)
        return output

    shape = (len(source.names), *source.size)
    frames = restore_tiled(
        source.read, restore, shape, tiling, tiles_at_once=tiles_at_once, readers=readers
    )
    for frame in frames:
        yield to_uint8(frame)


def _part(pixels: slice, ratio: int) -> slice:
    return slice(pixels.start // ratio, pixels.stop // ratio)


def _stack(arrays: Sequence[NDArray[np.generic]]) -> torch.Tensor:
    return torch.from_numpy(np.stack(arrays))
