"""Tiles and their blending: coverage, weights, order of frames and prefetching."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import psutil
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.helpers.frame_source import source_of
from vrtspike.config import load_preset
from vrtspike.models import build_model
from vrtspike.monitoring.step_memory import StorageCounter
from vrtspike.restoration.inference.tiling import (
    LARGEST_TILE,
    MEMORY_SHARES,
    Tiling,
    balanced_side,
    choose_tile_size,
    cut_axis,
    free_memory,
    tile_unit,
    tiling_for,
    tiling_overhead,
)
from vrtspike.restoration.inputs.clip_source import ClipSource, ClipWindow, read_ahead
from vrtspike.restoration.tiled_inference import restore_frames
from vrtspike.system.errors import RunError

CLIP_SHAPE = (7, 26, 38)


@pytest.fixture(scope="module")
def clip() -> np.ndarray:
    return np.random.default_rng(1).random((*CLIP_SHAPE, 3), np.float32)


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Conv3d(3, 3, 3, padding=1)


def apply(model: nn.Module, batch: ClipWindow) -> np.ndarray:
    tiles = batch.blur  # (B, T, H, W, 3)
    with torch.no_grad():
        return model(tiles.movedim(-1, 1)).transpose(1, 2).numpy()


def restore(compute, source: ClipSource, tiling: Tiling, **options):
    return restore_frames(compute, source, tiling, bits=None, **options)


def run(model: nn.Module, clip: np.ndarray, tiling: Tiling, **options: object) -> np.ndarray:
    return np.stack(list(restore(partial(apply, model), source_of(clip), tiling, **options)))


@pytest.mark.parametrize(
    ("length", "size", "overlap"),
    [
        (10, 4, 2),
        (21, 10, 5),
        (7, 0, 0),
    ],
)
def test_windows_cover_the_axis_with_weights_of_sum_one(length, size, overlap):
    total = np.zeros(length)
    for part, weights in cut_axis(length, size, overlap):
        assert part.stop - part.start == min(size or length, length)
        total[part] += weights
    np.testing.assert_allclose(total, 1, atol=1e-6)


@pytest.mark.parametrize(
    ("tiling", "exact"),
    [
        (Tiling(16, 8, 0, 0), range(7)),
        (Tiling(20, 6, 0, 0), range(7)),
        (Tiling(64, 8, 20, 4), range(7)),
        # An overlap of two frames has no margin: only frames inside a window are exact.
        (Tiling(0, 0, 5, 2), (0, 1, 5, 6)),
    ],
    ids=["tiles", "other tiles", "larger than the clip", "windows in time"],
)
def test_tiles_do_not_change_the_result_of_a_local_model(model, clip, tiling, exact):
    whole, tiled = run(model, clip, Tiling(0, 0, 0, 0)), run(model, clip, tiling)
    np.testing.assert_allclose(tiled[list(exact)], whole[list(exact)], atol=2e-6)


@pytest.mark.parametrize("options", [{"tiles_at_once": 4}, {"readers": 2}])
def test_groups_and_readers_change_nothing(model, clip, options):
    tiling = Tiling(16, 8, 3, 1)
    np.testing.assert_allclose(
        run(model, clip, tiling, **options), run(model, clip, tiling), atol=2e-6
    )


def test_frames_are_given_before_the_clip_ends(clip):
    windows, expected = [], np.moveaxis(clip, -1, 1)
    source = source_of(clip, windows)
    frames = restore(
        lambda batch: np.moveaxis(batch.blur.numpy(), -1, 2), source, Tiling(0, 0, 3, 1)
    )
    np.testing.assert_allclose(next(frames), expected[0], atol=2e-6)
    assert windows == [range(3)]
    np.testing.assert_allclose(list(frames), expected[1:], atol=1e-6)


def test_a_window_fades_linearly_between_its_margins():
    first, last = cut_axis(16, 12, 8)
    # A quarter of the overlap is margin, the half between fades.
    rise = [0.2, 0.4, 0.6, 0.8]
    assert first[1] == pytest.approx([1] * 6 + rise[::-1] + [0] * 2)
    assert last[1] == pytest.approx([0] * 2 + rise + [1] * 6)


def test_only_the_given_number_of_windows_is_read_ahead(clip):
    started: list[int] = []

    def read(time: slice) -> np.ndarray:
        started.append(time.start)
        return clip[time]

    windows = read_ahead([slice(n, n + 1) for n in range(7)], read, 2)
    np.testing.assert_allclose(next(windows), clip[:1], atol=2e-6)
    assert len(started) <= 3
    np.testing.assert_array_equal(np.concatenate(list(windows)), clip[1:])
    assert sorted(started) == list(range(7))


@pytest.mark.parametrize(("size", "overlap"), [(256, 32), (64, 16), (128, 64), (40, 0)])
def test_even_sides_need_no_more_windows_and_are_the_smallest_that_do(size, overlap):
    assert balanced_side(size, size, overlap, 8) == balanced_side(size, 0, 0, 8) == size
    for length in range(size + 1, 1300, 37):
        side = balanced_side(length, size, overlap, unit=8)
        assert 2 * overlap <= side <= size
        assert side % 8 == 0
        windows = len(cut_axis(length, side, overlap))
        assert windows == len(cut_axis(length, size, overlap))
        smaller = side - 8
        if smaller >= 2 * overlap and smaller > 0:
            assert len(cut_axis(length, smaller, overlap)) > windows


def test_recomputation_counts_the_pixels_of_the_model(model, clip):
    shares = []

    def compute(batch: ClipWindow) -> np.ndarray:
        result = apply(model, batch)
        shares.append(result.size / 3)
        return result

    tiling = Tiling(16, 4, 3, 1)
    list(restore(compute, source_of(clip), tiling))
    expected = sum(shares) / np.prod(CLIP_SHAPE)
    assert expected > 1.5
    assert tiling_overhead(CLIP_SHAPE, tiling, unit=8) == pytest.approx(expected)
    assert tiling_overhead(CLIP_SHAPE, Tiling(0, 0, 0, 0), unit=8) == 1


@pytest.mark.parametrize("wanted", [{0}, {3}, {1, 5}, {6}, {0, 1, 2, 3, 4, 5, 6}])
def test_wanted_frames_are_those_of_the_whole_clip(model, clip, wanted):
    tiling = Tiling(16, 8, 3, 1)
    windows, every = [], run(model, clip, tiling)
    some = list(restore(partial(apply, model), source_of(clip, windows), tiling, wanted=wanted))
    np.testing.assert_array_equal(some, every[sorted(wanted)])
    assert all(wanted.intersection(window) for window in windows)


def test_progress_counts_tiles(model, clip):
    calls: list[tuple[int, int]] = []
    tiling = Tiling(16, 8, 3, 1)
    run(model, clip, tiling, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(n, calls[-1][0]) for n in range(1, calls[-1][0] + 1)]
    total = calls.pop()
    run(model, clip, tiling, tiles_at_once=4, progress=lambda *done: calls.append(done))
    assert calls[-1] == total


HD = (100, 720, 1280)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["demo", "light_demo"])
def test_the_memory_of_a_tile_is_predicted(repository, preset):
    """Counted with tensors that have no data."""
    settings = load_preset(repository / f"config/presets/{preset}.yaml")
    model = build_model(settings, pretrained=False).eval()
    frames, side, bins = settings.DATA.CLIP_LEN, 64, settings.DATA.NUM_VOXEL_BINS
    with FakeTensorMode(allow_non_fake_inputs=True), StorageCounter() as counter, torch.no_grad():
        blur = torch.zeros(1, frames, 3, side, side)
        model(blur, torch.zeros(1, frames, bins, side // 2, side // 2))
    counted = counter.peak / (frames * side**2)
    assert counted <= settings.MODEL.network.bytes_per_pixel <= 1.3 * counted


@pytest.mark.parametrize("preset", ["baseline", "compact", "opt", "reproduce"])
@pytest.mark.parametrize(("device", "memory"), [("cpu", 32), ("cuda", 24)])
def test_little_is_computed_twice_at_720p(repository, preset, device, memory):
    settings = load_preset(repository / f"config/presets/{preset}.yaml")
    tiling, unit = tiling_for(settings), tile_unit(ratio=2)
    pixels = int(MEMORY_SHARES[device] * memory * 2**30 / settings.MODEL.network.bytes_per_pixel)
    size = choose_tile_size(HD, tiling, unit, pixels)
    chosen = Tiling(size, tiling.overlap, tiling.frames, tiling.frames_overlap)
    assert tiling_overhead(HD, chosen, unit) < 1.35


@pytest.mark.parametrize("max_pixels", [25_000, 100_000, 1_000_000, 4_000_000])
def test_tiles_fit_and_no_other_size_shares_less(max_pixels):
    tiling, unit = Tiling(64, 32, 5, 1), 8

    def pixels(size: int) -> int:
        return math.prod(balanced_side(side, size, 32, unit) for side in HD[1:])

    def shared(size: int) -> float:
        return tiling_overhead(HD, Tiling(size, 32, 5, 1), unit)

    size = choose_tile_size(HD, tiling, unit, max_pixels)
    limit = min(max_pixels / 5, LARGEST_TILE)
    assert pixels(size) <= limit
    fitting = [other for other in range(64, 1281, 8) if pixels(other) <= limit]
    assert shared(size) == min(map(shared, fitting))


def test_too_little_memory_is_refused():
    with pytest.raises(RunError, match=r"64 x 64 pixels and 5 frames do not fit.* 5000 of"):
        choose_tile_size(HD, Tiling(64, 32, 5, 1), 8, 5000)


@pytest.mark.parametrize(
    ("shape", "window"),
    [((100, 400, 640), 5), ((2, 400, 640), 5), ((2, 720, 1280), 0)],
    ids=["long", "shorter than a window", "one window"],
)
def test_a_frame_that_fits_is_restored_as_a_whole(shape, window):
    tiling = Tiling(64, 32, window, 0)
    fits = math.prod(shape) // shape[0] * min(window or shape[0], shape[0])
    assert choose_tile_size(shape, tiling, 8, fits) == 0
    assert choose_tile_size(shape, tiling, 8, fits - 1) > 0


def test_free_memory_is_no_more_than_the_machine_has():
    assert 0 < free_memory(torch.device("cpu")) <= psutil.virtual_memory().total


def test_free_memory_is_that_of_the_given_gpu(monkeypatch):
    free = {0: 1000, 1: 5000}
    reserved = {0: 200, 1: 700}
    allocated = {0: 100, 1: 300}
    current = torch.device("cuda:0")

    def of_device(sizes):
        return lambda device=current: sizes[device.index]

    infos = {index: (number, 8000) for index, number in free.items()}
    monkeypatch.setattr(torch.cuda, "mem_get_info", of_device(infos))
    monkeypatch.setattr(torch.cuda, "memory_reserved", of_device(reserved))
    monkeypatch.setattr(torch.cuda, "memory_allocated", of_device(allocated))
    assert free_memory(torch.device("cuda:1")) == 5000 + 700 - 300
    assert free_memory(current) == 1000 + 200 - 100
