from __future__ import annotations

import math

import psutil
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.config import load_preset
from vrtspike.deblurring.evaluation.tile_memory import (
    LARGEST_TILE,
    SHARE,
    bytes_per_pixel,
    choose_size,
    free_memory,
)
from vrtspike.deblurring.evaluation.tiling import (
    Tiling,
    even_side,
    recomputation,
    tile_unit,
    tiling_for,
)
from vrtspike.deblurring.models import build_model
from vrtspike.errors import RunError
from vrtspike.monitoring.memory import StorageCounter

CPU = torch.device("cpu")
HD = (100, 720, 1280)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["demo", "light_demo"])
def test_the_memory_of_a_tile_is_foreseen(repository, preset):
    """Counted with tensors that have no data."""
    settings = load_preset(repository / f"config/presets/{preset}.yaml")
    model = build_model(settings, pretrained=False).eval()
    frames, side, bins = settings.DATA.CLIP_LEN, 64, settings.DATA.NUM_VOXEL_BINS
    with FakeTensorMode(allow_non_fake_inputs=True), StorageCounter() as counter, torch.no_grad():
        blur = torch.zeros(1, frames, 3, side, side)
        model(blur, torch.zeros(1, frames, bins, side // 2, side // 2))
    counted = counter.peak / (frames * side**2)
    assert counted <= bytes_per_pixel(settings.MODEL) <= 1.3 * counted


@pytest.mark.parametrize("preset", ["baseline", "compact", "opt", "reproduce"])
@pytest.mark.parametrize(("device", "memory"), [("cpu", 32), ("cuda", 24)])
def test_little_is_computed_twice_at_720p(repository, preset, device, memory):
    settings = load_preset(repository / f"config/presets/{preset}.yaml")
    tiling, unit = tiling_for(settings.TEST.TILE, settings.DATA.CLIP_LEN), tile_unit(ratio=2)
    pixels = int(SHARE[device] * memory * 2**30 / bytes_per_pixel(settings.MODEL))
    size = choose_size(HD, tiling, unit, pixels)
    chosen = Tiling(size, tiling.overlap, tiling.frames, tiling.frames_overlap)
    assert recomputation(HD, chosen, unit) < 1.35


@pytest.mark.parametrize("most", [25_000, 100_000, 1_000_000, 4_000_000])
def test_tiles_fit_and_no_other_size_shares_less(most):
    tiling, unit = Tiling(64, 32, 5, 1), 8

    def pixels(size: int) -> int:
        return math.prod(even_side(side, size, 32, unit) for side in HD[1:])

    def shared(size: int) -> float:
        return recomputation(HD, Tiling(size, 32, 5, 1), unit)

    size = choose_size(HD, tiling, unit, most)
    limit = min(most / 5, LARGEST_TILE)
    assert pixels(size) <= limit
    fitting = [other for other in range(64, 1281, 8) if pixels(other) <= limit]
    assert shared(size) == min(map(shared, fitting))


def test_too_little_memory_is_told():
    with pytest.raises(RunError, match=r"64 x 64 pixels and 5 frames do not fit.* 5000 of"):
        choose_size(HD, Tiling(64, 32, 5, 1), 8, 5000)


@pytest.mark.parametrize(
    ("shape", "window"),
    [((100, 400, 640), 5), ((2, 400, 640), 5), ((2, 720, 1280), 0)],
    ids=["long", "shorter than a window", "one window"],
)
def test_a_frame_that_fits_is_restored_as_a_whole(shape, window):
    tiling = Tiling(64, 32, window, 0)
    fits = math.prod(shape) // shape[0] * min(window or shape[0], shape[0])
    assert choose_size(shape, tiling, 8, fits) == 0
    assert choose_size(shape, tiling, 8, fits - 1) > 0


def test_free_memory_is_no_more_than_the_machine_has():
    assert 0 < free_memory(CPU) <= psutil.virtual_memory().total
