"""Restore a folder of blurry frames, with recorded or simulated spikes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vrtspike.data.raw.images import read_rgb, write_png
from vrtspike.data.store.voxels import Statistics
from vrtspike.deblurring.metrics.images import Image
from vrtspike.deblurring.metrics.psnr import psnr
from vrtspike.deblurring.metrics.ssim import ssim
from vrtspike.deblurring.visuals import comparison
from vrtspike.evaluation.restore import restore_frames
from vrtspike.evaluation.sources import FrameSource
from vrtspike.evaluation.tiling import Tiling
from vrtspike.files import write_json

RESTORED = "restored"
COMPARISON = "comparison"
RECORD = "restore.json"

NO_SPIKES = "none, the model takes none"
SIMULATED = "simulated from the blurry frames: they hold no more than the frames do"


def restore_folder(
    model: nn.Module,
    source: FrameSource,
    statistics: Statistics | None,
    device: torch.device,
    tiling: Tiling,
    output: Path,
    *,
    spikes: str,
    sharp: Path | None = None,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Restore a clip and write its frames.

    Args:
        model: called as ``model(blur, voxels)``.
        source: the blurry frames and their spikes.
        statistics: what the training data was standardised with; None if it had no spikes.
        device: where the model is.
        tiling: how the clip is cut.
        output: folder for ``restored/<frame>.png``, ``comparison/<frame>.png`` and
            ``restore.json``.
        spikes: where the spikes came from, in words; stands in the record.
        sharp: folder that may hold sharp frames of the same names, to compare with.
        progress: called with the frames done and their total.

    Returns:
        the contents of ``restore.json``.
    """
    started = time.monotonic()
    frames = []
    restored_frames = restore_frames(model, source, statistics, device, tiling)
    for number, restored in enumerate(restored_frames):
        name = source.names[number]
        blur = source.read(slice(number, number + 1)).blur[0]
        truth = _sharp_frame(sharp, name)
        write_png(output / RESTORED / f"{name}.png", restored)
        write_png(output / COMPARISON / f"{name}.png", comparison(blur, restored, truth))
        frames.append({"frame": name, **_figures(blur, restored, truth)})
        progress(number + 1, len(source.names))
    record = {
        "schema": 1,
        "spikes": spikes,
        "size": list(source.size),
        "tile": tiling.size,
        "window": tiling.frames,
        "device": device.type,
        "seconds_per_frame": (time.monotonic() - started) / len(frames),
        "frames": frames,
    }
    write_json(output / RECORD, record)
    return record


def _sharp_frame(folder: Path | None, name: str) -> Image | None:
    path = None if folder is None else folder / f"{name}.png"
    return read_rgb(path) if path is not None and path.is_file() else None


def _figures(blur: Image, restored: Image, sharp: Image | None) -> dict[str, float]:
    if sharp is None:
        return {}
    return {
        "psnr_blur": psnr(blur, sharp),
        "psnr": psnr(restored, sharp),
        "ssim_blur": ssim(blur, sharp),
        "ssim": ssim(restored, sharp),
    }
