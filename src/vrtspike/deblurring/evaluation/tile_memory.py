"""How large a tile may be: what a model needs for each pixel of it, and what memory is free."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.deblurring.evaluation.restore import products_in
from vrtspike.deblurring.evaluation.tiling import Tiling, even_side, recomputation
from vrtspike.errors import RunError
from vrtspike.monitoring.memory import StorageCounter
from vrtspike.monitoring.process_memory import MEGABYTE, system_memory

LARGEST_TILE = 2**18
"""Pixels of the largest tile that is chosen where a whole frame does not fit. Frames of 720p are 4
such, and what they share is a fourteenth; more would cost memory and gain next to nothing."""

SHARE = {"cuda": 0.85, "cpu": 0.8}
"""Of the free memory, what a tile may need: others want some, too."""

CPU_OVERHEAD = 1.8
"""What a process grows by on a CPU for each byte of its tensors: libraries work on copies, and
freed memory stays in pieces; 1.64 to 1.74 were measured with `demo` and `baseline`."""

MOST_PER_PIXEL = 30_000
"""Bytes for each pixel of each frame, more than any preset needs (`baseline` 17,000): where so many
are free for a whole frame, no model need be tried."""

_SIDE = {"cuda": 128, "cpu": 64}
"""Of the tile that is tried. What a model needs grows with its area, but for what libraries take on
a GPU. Counting `baseline` takes 15 s at 64 pixels, 43 s at 128."""


def bytes_per_pixel(
    model: nn.Module,
    bins: int | None,
    frames: int,
    device: torch.device,
    dtype: torch.dtype,
    ratio: int = 1,
) -> float:
    """What a model needs to restore a tile, beside its weights, for each pixel of each frame.

    A small tile is tried: on a GPU for real, on a CPU by counting, with tensors that have no data.

    Args:
        model: called as ``model(blur, voxels)``, on the device.
        bins: of the voxels; None for a model that takes none.
        frames: of a temporal window.
        device: where it computes.
        dtype: type of the products (autocast's, where it is a half type).
        ratio: pixels of a frame for each spike pixel along each side.
    """

    side = _SIDE[device.type]

    def restore() -> None:
        with torch.no_grad(), products_in(dtype, device):
            blur = torch.zeros(1, frames, 3, side, side, device=device)
            voxels = None
            if bins is not None:
                sensor = side // ratio
                voxels = torch.zeros(1, frames, bins, sensor, sensor, device=device)
            model(blur, voxels)

    pixels = frames * side**2
    if device.type == "cuda":
        return _cuda_peak(restore) / pixels
    with FakeTensorMode(allow_non_fake_inputs=True), StorageCounter() as counter:
        restore()
    return CPU_OVERHEAD * counter.peak / pixels


def _cuda_peak(run: Callable[[], None]) -> int:
    """Bytes that ``run`` allocated at once on the GPU; the first run may compile kernels."""
    run()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


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
