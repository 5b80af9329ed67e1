from __future__ import annotations

import psutil
import pytest
import torch
from torch import nn

from vrtspike.config import load_preset
from vrtspike.deblurring.evaluation.tile_memory import (
    CPU_OVERHEAD,
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
from vrtspike.errors import RunError

CPU = torch.device("cpu")
HD = (100, 720, 1280)


class Known(nn.Module):
    """Keeps its inputs, and makes two tensors of 7 numbers a pixel, one after the other is gone."""

    def forward(self, blur: torch.Tensor, voxels: torch.Tensor | None) -> torch.Tensor:
        for _ in range(2):
            wide = torch.zeros(7, *blur.shape[-2:]) + 0
            del wide
        return blur


def test_what_lives_at_once_is_counted():
    # Float32: 3 channels of blur, 5 bins, and two of 7 numbers while they are added, one frame.
    need = bytes_per_pixel(Known(), 5, 1, CPU, torch.float32)
    assert need == pytest.approx(CPU_OVERHEAD * 4 * (3 + 5 + 7 + 7))
    # Of 4 frames each brings its own inputs; the wide tensors are one frame's.
    need = bytes_per_pixel(Known(), None, 4, CPU, torch.float32)
    assert need == pytest.approx(CPU_OVERHEAD * 4 * (3 + (7 + 7) / 4))


@pytest.mark.parametrize("preset", ["baseline", "compact", "opt", "reproduce"])
def test_little_is_computed_twice_at_720p(repository, preset):
    settings = load_preset(repository / f"config/presets/{preset}.yaml")
    tiling = tiling_for(settings.TEST.TILE, settings.DATA.CLIP_LEN)
    unit = tile_unit(ratio=2)
    # What 24 GB leave a CPU of a network whose tensors take 8.7 KB for each pixel of a frame.
    pixels = int(SHARE["cpu"] * 24 * 2**30 / (CPU_OVERHEAD * 8700))
    size = choose_size(HD, tiling, unit, pixels)
    chosen = Tiling(size, tiling.overlap, tiling.frames, tiling.frames_overlap)
    assert recomputation(HD, chosen, unit) < 1.35


@pytest.mark.parametrize("most", [5000, 25_000, 100_000, 1_000_000, 4_000_000, 10_000_000])
def test_tiles_fit_and_no_other_size_shares_less(most):
    tiling, unit = Tiling(64, 32, 5, 1), 8

    def sides(size: int) -> int:
        return even_side(720, size, 32, unit) * even_side(1280, size, 32, unit)

    def shared(size: int) -> float:
        return recomputation(HD, Tiling(size, 32, 5, 1), unit)

    if most == 5000:
        with pytest.raises(RunError, match=r"64 x 64 pixels and 5 frames do not fit.* 5000 of"):
            choose_size(HD, tiling, unit, most)
        return
    size = choose_size(HD, tiling, unit, most)
    if most == 10_000_000:
        assert size == 0, "the whole frame fits"
        return
    limit = min(most / 5, LARGEST_TILE)
    assert sides(size) <= limit
    fitting = [other for other in range(64, 1281, 8) if sides(other) <= limit]
    assert shared(size) == min(map(shared, fitting))


def test_a_frame_that_fits_is_restored_as_a_whole():
    assert choose_size((100, 400, 640), Tiling(64, 32, 5, 1), 8, 5 * 400 * 640) == 0
    assert choose_size((100, 400, 640), Tiling(64, 32, 5, 1), 8, 5 * 400 * 640 - 1) > 0
    # A short clip has short windows.
    assert choose_size((2, 400, 640), Tiling(64, 32, 5, 1), 8, 2 * 400 * 640) == 0
    assert choose_size((2, 720, 1280), Tiling(64, 32, 0, 0), 8, 2 * 720 * 1280) == 0
    assert choose_size((2, 720, 1280), Tiling(64, 32, 0, 0), 8, 2 * 720 * 1280 - 1) > 0


def test_free_memory_is_no_more_than_the_machine_has():
    assert 0 < free_memory(CPU) <= psutil.virtual_memory().total
