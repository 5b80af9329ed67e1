"""How large a tile may be: what a model needs for each pixel of it, and what memory is free."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from vrtspike.deblurring.evaluation.tiling import Tiling, even_side, recomputation
from vrtspike.deblurring.settings.model import ModelSettings
from vrtspike.errors import RunError
from vrtspike.monitoring.process_memory import MEGABYTE, system_memory

LARGEST_TILE = 2**18
"""Pixels of the largest tile that is chosen where a whole frame does not fit. Frames of 720p are 4
such, and what they share is a fourteenth; more would cost memory and gain next to nothing."""

SHARE = {"cuda": 0.85, "cpu": 0.45}
"""Of the free memory, what the tensors of a tile may need: others want some, too. On a CPU, memory
grows by 1.64 to 1.74 bytes for each byte of tensors (`demo`, `baseline`): libraries copy, and freed
memory stays in pieces."""


def bytes_per_pixel(model: ModelSettings) -> int:
    """The memory for the tensors of a tile, without weights, per pixel of each frame, in float32.

    Measured: 9,440 with 96 channels of VRT and 5,216 with 32, 1,383 with 32 channels of NAFNet. An
    unknown model is taken for one that needs more than any of these.
    """
    match model.TYPE:
        case "vrt_spike":
            return 3300 + 70 * max(model.VRT.EMBED_DIMS)
        case "spike_nafnet":
            return 50 * model.NAF.WIDTH
        case _:
            return 20_000


def free_memory(device: torch.device) -> int:
    """Bytes that a process may still take: of the GPU, or of the machine and its container."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return int(torch.cuda.mem_get_info()[0] + unused)
    return int(system_memory().available_within_limit * MEGABYTE)


def choose_size(shape: tuple[int, int, int], tiling: Tiling, unit: int, pixels: int) -> int:
    """The ``size`` of tiles of which least is computed twice; 0 for the whole frame.

    Args:
        shape: frames, height and width of the clip.
        tiling: its overlap and its temporal windows are kept.
        unit: sides are multiples of it.
        pixels: what a tile may have, of all frames of a temporal window together.

    Raises:
        RunError: if not even the smallest tile fits.
    """
    frames, height, width = shape
    window = min(tiling.frames or frames, frames)
    if height * width <= pixels // window:
        return 0
    most = min(pixels // window, LARGEST_TILE)
    smallest = -(-max(2 * tiling.overlap, unit) // unit) * unit
    fitting = [
        size
        for size in range(smallest, max(height, width) + unit, unit)
        if math.prod(even_side(side, size, tiling.overlap, unit) for side in (height, width))
        <= most
    ]
    if not fitting:
        raise RunError(
            f"tiles of {smallest} x {smallest} pixels and {window} frames do not fit: the free "
            f"memory is enough for {pixels} of their {smallest * smallest * window} pixels; end "
            "other programs, or choose another device"
        )
    return min(fitting, key=lambda size: recomputation(shape, replace(tiling, size=size), unit))
