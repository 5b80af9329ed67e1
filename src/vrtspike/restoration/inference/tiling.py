"""The tiling of a clip: overlapping windows that blend without seams, as large as memory allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring_settings.schema import DeblurringSettings
from vrtspike.monitoring.process_memory import MEGABYTE, system_memory
from vrtspike.restoration.inputs.clip_source import ClipWindow
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.system.rounding import ceil_div, round_up

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Tiling:
    """Spatial tiles and temporal windows of a clip.

    Attributes:
        size: largest height and width of a spatial tile in pixels (see :func:`balanced_side`); 0
            takes the whole frame. A multiple of the numerator of the ratio between frame and
            sensor, so that tiles fall on whole pixels of the sensor.
        overlap: pixels shared by neighbouring tiles, likewise a multiple, at most half of ``size``.
        frames: frames of a temporal window; 0 takes the whole clip.
        frames_overlap: frames shared by neighbouring windows, at most half of ``frames``.
        neighbors: read the spikes of the frame before and of the one after each window, too.
        fading: make tiles smaller if the same number of them suffices, and let tiles and windows
            fade into each other. If false, tiles are cut and joined as in VRT's test program: all
            tiles have ``size`` and meet in the middle of their overlap, and windows that overlap in
            time have equal weights.
    """

    size: int
    overlap: int
    frames: int
    frames_overlap: int
    fading: bool = True
    neighbors: bool = False

    def describe(self) -> str:
        """Return the tiles in words."""
        if not self.size:
            return "whole frames"
        return f"tiles of at most {self.size} pixels"


TileModel: TypeAlias = Callable[[ClipWindow], NDArray[np.float32]]
"""Model that restores a batch of tiles, in PyTorch or ONNX; returns float32 (B, T, 3, H, W)."""

WeightedWindow: TypeAlias = tuple[slice, NDArray[np.float32]]
"""A window along one axis, with its weight in the result at each of its positions."""

_WINDOW = 8
"""Total downsampling factor of the network, and side of its attention windows."""

LARGEST_TILE = 2**18
"""Pixels of the largest tile that is chosen if a whole frame does not fit. A 720p frame has four
of these tiles, which share a fourteenth of their pixels; larger ones would cost memory and gain
next to nothing."""

MEMORY_SHARES = {"cuda": 0.85, "cpu": 0.45}
"""Share of the free memory for the tensors of a tile, which leaves headroom for other processes, by
type of device; :func:`~vrtspike.restoration.inference.precision.choose_device` gives no other. On a
CPU, memory grows by 1.64 to 1.74 bytes for each byte of tensors (`demo`, `baseline`): libraries
make copies, and freed memory is fragmented."""


def tiling_for(settings: DeblurringSettings) -> Tiling:
    """Return the tiling of TEST.TILE, with DATA.CLIP_LEN frames in a window if it names none.

    A temporal window shares a sixth of its frames with the next one, at least one frame: two of 12,
    as in VRT. Windows of a network that restores frames one by one share none: its model gets the
    spikes of the frames beside each window, and the models of an ablation have equal windows.
    """
    tile = settings.TEST.TILE
    frames = tile.FRAMES or settings.DATA.CLIP_LEN
    frames_overlap = min(max(1, frames // 6), frames // 2)
    if settings.MODEL.network.takes_neighbors:
        frames_overlap = 0
    return Tiling(
        tile.SIZE, tile.OVERLAP, frames, frames_overlap, neighbors=_takes_neighbors(settings)
    )


def _takes_neighbors(settings: DeblurringSettings) -> bool:
    """Return whether a model gets the spikes of the frames before and after a window.

    One that was trained on single frames alone has learnt nothing of such spikes, and the control
    with shuffled spikes takes those of other frames of the window.
    """
    model = settings.MODEL
    is_trained = settings.DATA.NEIGHBOURS or settings.DATA.CLIP_LEN > 1
    takes_them = model.USE_SPIKE and model.network.takes_neighbors
    return takes_them and is_trained and not model.shuffles_spikes


def tile_unit(ratio: int) -> int:
    """Return the unit of tile sides: whole attention windows and sensor pixels.

    Args:
        ratio: the frame's pixels for each spike pixel along each side.
    """
    return math.lcm(_WINDOW, ratio)


def balanced_side(length: int, size: int, overlap: int, unit: int) -> int:
    """Return the smallest side that covers an axis with no more windows than ``size`` does.

    The last window ends with the axis. Windows of the full ``size`` would share more than
    ``overlap`` there, and shared positions are computed twice.

    Args:
        length: positions along the axis.
        size: the largest side; 0 or anything not below ``length`` gives one window.
        overlap: positions shared by neighbours, at most ``size // 2``.
        unit: the side is a multiple of it, if it is below ``size``.

    >>> balanced_side(720, 256, 32, unit=8), balanced_side(1280, 256, 32, unit=8)
    (208, 240)
    """
    if size == 0 or size >= length:
        return length
    windows = ceil_div(length - overlap, size - overlap)
    total = length + (windows - 1) * overlap
    side = round_up(ceil_div(total, windows), unit)
    return min(max(side, 2 * overlap), size)


def tiling_overhead(shape: tuple[int, int, int], tiling: Tiling, unit: int) -> float:
    """Return pixels that are restored for each pixel of the clip; 1 without overlap.

    Args:
        shape: frames, height and width of the clip.
        tiling: tiling of the clip.
        unit: as for :func:`balanced_side`.
    """
    restored = 1
    for spans in tile_windows(shape, tiling, unit):
        restored *= sum(part.stop - part.start for part, _ in spans)
    return restored / math.prod(shape)


def free_memory(device: torch.device) -> int:
    """Return the free bytes for this process: of the GPU, or of the machine and its container."""
    if device.type == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + unused)
    return int(system_memory().available * MEGABYTE)


def fit_tiling(
    settings: DeblurringSettings,
    shape: tuple[int, int, int],
    ratio: int,
    device: torch.device,
    tile: int | None = None,
    extra_frames: int = 0,
) -> Tiling:
    """Return TEST.TILE of a run, with tiles as large as the free memory allows.

    Args:
        settings: settings of the run.
        shape: frames, height and width of the clip.
        ratio: as for :func:`tile_unit`.
        device: the device that computes.
        tile: largest side of a tile in pixels, 0 for whole frames; None fits it to the memory.
        extra_frames: frames that a model computes for a window beside its own, if the tiling has
            neighbours.

    Raises:
        ConfigError: if ``tile`` is negative or does not fall on whole pixels of the sensor.
        RunError: if the memory is too small.
    """
    unit = tile_unit(ratio)
    configured = tiling_for(settings)
    tiling = replace(configured, size=0, overlap=round_up(configured.overlap, unit))
    if tile is None:
        memory = MEMORY_SHARES[device.type] * free_memory(device)
        pixels = int(memory / settings.MODEL.network.bytes_per_pixel)
        if tiling.neighbors:
            window = min(tiling.frames, shape[0])
            pixels = pixels * window // (window + extra_frames)
        return replace(tiling, size=choose_tile_size(shape, tiling, unit, pixels))
    if not isinstance(tile, int | np.integer) or tile < 0 or tile % ratio:
        raise ConfigError(f"tile: found {tile!r}, expected 0 or a positive multiple of {ratio}")
    if tile == 0:
        return tiling
    # The record of a restoration holds integers of Python alone.
    tile = int(tile)
    # The overlap is at most half of the tile, and an even number of the sensor's pixels.
    max_overlap = tile // (4 * ratio) * 2 * ratio
    return replace(tiling, size=tile, overlap=min(tiling.overlap, max_overlap))


def choose_tile_size(shape: tuple[int, int, int], tiling: Tiling, unit: int, pixels: int) -> int:
    """Return the ``size`` of tiles with the least recomputation; 0 for the whole frame.

    Args:
        shape: frames, height and width of the clip.
        tiling: its overlap and its temporal windows are kept.
        unit: sides are multiples of it.
        pixels: maximum pixels of a tile, of all frames of a temporal window together.

    Raises:
        RunError: if not even the smallest tile fits.
    """
    frames, height, width = shape
    window = min(tiling.frames or frames, frames)
    if height * width <= pixels // window:
        return 0
    max_pixels = min(pixels // window, LARGEST_TILE)
    smallest = round_up(max(2 * tiling.overlap, unit), unit)
    fitting = []
    for size in range(smallest, max(height, width) + unit, unit):
        rows = balanced_side(height, size, tiling.overlap, unit)
        columns = balanced_side(width, size, tiling.overlap, unit)
        if rows * columns <= max_pixels:
            fitting.append(size)
    if not fitting:
        raise RunError(
            f"tiles of {smallest} x {smallest} pixels and {window} frames do not fit: the free "
            f"memory is enough for {pixels} of their {smallest * smallest * window} pixels; end "
            "other programs, or choose another device"
        )
    return min(fitting, key=lambda size: tiling_overhead(shape, replace(tiling, size=size), unit))


def tile_windows(
    shape: tuple[int, int, int], tiling: Tiling, unit: int
) -> list[list[WeightedWindow]]:
    """Return the windows along time, rows and columns.

    Args:
        shape: frames, height and width of the clip.
        tiling: tiling of the clip.
        unit: as for :func:`balanced_side`.
    """
    frames, height, width = shape
    equal_weights = None
    inner_half = None
    if not tiling.fading:
        equal_weights = np.ones(tiling.frames_overlap)
        inner_half = np.repeat([0.0, 1.0], tiling.overlap // 2)
    spans = [cut_axis(frames, tiling.frames, tiling.frames_overlap, equal_weights)]
    for length in (height, width):
        side = tiling.size
        if tiling.fading:
            side = balanced_side(length, tiling.size, tiling.overlap, unit)
        spans.append(cut_axis(length, side, tiling.overlap, inner_half))
    return spans


def cut_axis(
    length: int, size: int, overlap: int, rise: NDArray[np.float64] | None = None
) -> list[WeightedWindow]:
    """Cut an axis into windows of ``size`` whose weights add up to 1 at every position.

    By default the outer quarter of a window's overlap has weight 0, because the model sees the
    least context there; the inner half fades linearly from one window to the next. A model whose
    receptive field reaches at most ``overlap // 4`` positions therefore gives exactly the same
    result as without windows.

    Args:
        length: positions along the axis.
        size: positions in a window; 0 or anything not below ``length`` gives one window.
        overlap: positions shared by neighbours, at most ``size // 2``. The last window ends with
            the axis and may share more.
        rise: weight of each position of the overlap at the start of a window.

    Returns:
        windows in order of their start.

    >>> spans = cut_axis(100, size=48, overlap=16)
    >>> [(part.start, part.stop) for part, _ in spans]
    [(0, 48), (32, 80), (52, 100)]
    >>> [round(float(weight), 2) for weight in spans[0][1][[35, 36, 43, 44]]]
    [1.0, 0.89, 0.11, 0.0]
    """
    if size == 0 or size >= length:
        return [(slice(0, length), np.ones(length, np.float32))]
    if rise is None:
        margin = overlap // 4
        rise = ((np.arange(overlap) + 1 - margin) / (overlap - 2 * margin + 1)).clip(0, 1)
    total = np.zeros(length)
    raw = []
    starts = [*range(0, length - size, size - overlap), length - size]
    for start in starts:
        weights = np.ones(size)
        if start > 0:
            weights[:overlap] = rise
        if start + size < length:
            weights[size - overlap :] *= rise[::-1]
        raw.append((slice(start, start + size), weights))
        total[start : start + size] += weights
    return [(part, (weights / total[part]).astype(np.float32)) for part, weights in raw]
