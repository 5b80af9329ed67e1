"""Edges of bins about the sharp frame, for whole and fractional instants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrtspike.data.exposure import exposure_of_average
from vrtspike.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.data.voxels.bins import bin_edges, max_bins
from vrtspike.system.errors import DataError


def bin_steps(frames, bins):
    """Steps of the bins of an exposure of Spk-GoPro."""
    return np.diff(bin_edges(spk_gopro_exposure(frames), bins))


@pytest.mark.parametrize(
    ("frames", "bins", "steps"),
    [
        # 7 source frames of 8 steps: the sharp one is at step 24; j + j^3 / 512 before it and
        # j + j^3 / 256 after it, rounded down.
        (
            56,
            32,
            [3, *[2] * 5, 1, 1, 2, *[1] * 7, *[1] * 6, 2, 2, 1, 2, 3, 2, 3, 3, 4, 4],
        ),
        # 11 and 13 source frames: steps 40 and 48; (steps - 2) / 8 more at the first of two bins.
        (88, 4, [35, 5, 6, 42]),
        (104, 4, [42, 6, 7, 49]),
        # An odd number of bins: the longer part, after the sharp frame, has one more.
        (88, 5, [35, 5, 2, 13, 33]),
        (88, 1, [88]),
        (255, 1, [255]),
        # The sharp frame is half-way through step 40 of 89.
        (89, 4, [35, 5, 6, 43]),
        # Two source frames, and less than two: these are cut in the middle.
        (16, 8, [1, 1, 1, 1, 1, 2, 3, 6]),
        (15, 4, [6, 1, 1, 7]),
        (8, 8, [1] * 8),
        (1, 1, [1]),
    ],
)
def test_bins_of_whole_steps_about_the_sharp_frame(frames, bins, steps):
    assert bin_steps(frames, bins).tolist() == steps
    assert bin_edges(spk_gopro_exposure(frames), bins).tolist() == [0, *np.cumsum(steps)]


@pytest.mark.parametrize("steps_per_frame", [1, 3, 8, 16])
@pytest.mark.parametrize("bins", [2, 4, 7])
def test_the_sharp_frame_lies_at_one_edge_whatever_the_exposure(bins, steps_per_frame):
    for source_frames in (7, 11, 12, 13):
        exposure = exposure_of_average(source_frames, steps_per_frame)
        assert bin_edges(exposure, bins)[bins // 2] == steps_per_frame * (source_frames // 2)
        # Wherever it lies in its file, and with steps of the closed shutter on both sides.
        moved = exposure.moved(100)
        assert bin_edges(moved, bins).tolist() == bin_edges(exposure, bins).tolist()
        wide = moved.widened(5, total=moved.stop + 3)
        assert (wide.start, wide.stop, wide.sharp) == (95, moved.stop + 3, moved.sharp)
        assert bin_edges(wide, bins)[bins // 2] == 5 + steps_per_frame * (source_frames // 2)


@given(frames=st.integers(1, 300), data=st.data())
@settings(max_examples=200, deadline=None)
def test_all_bins_that_fit_are_filled_and_grow_away_from_the_sharp_frame(frames, data):
    bins = data.draw(st.integers(max(1, -(-frames // 200)), max_bins(spk_gopro_exposure(frames))))
    steps, half = bin_steps(frames, bins), bins // 2
    assert steps.sum() == frames
    assert steps.min() >= 1
    if bins > 1:
        assert steps[:half].sum() == int(spk_gopro_exposure(frames).sharp)
        # Outwards, bins grow; rounding may take a step from one and give it to the next.
        for part in (steps[:half][::-1], steps[half:]):
            assert all(np.diff(part) >= -1)
            assert part[0] <= part.mean()


@pytest.mark.parametrize(
    ("frames", "limit"),
    [(104, 97), (88, 81), (56, 49), (57, 49), (17, 9), (16, 9), (15, 15), (8, 8)],
)
def test_more_bins_than_steps_on_one_side_are_refused(frames, limit):
    assert max_bins(spk_gopro_exposure(frames)) == limit
    with pytest.raises(
        DataError,
        match=rf"{limit + 1} voxel bins .* DATA\.NUM_VOXEL_BINS to at most {limit}$",
    ):
        bin_steps(frames, limit + 1)


@pytest.mark.parametrize(
    ("frames", "bins", "advice"),
    [(10, 0, "at least 1"), (0, 1, "at most 0"), (256, 1, "raise"), (560, 2, "raise")],
)
def test_bins_that_cannot_be_held_are_refused(frames, bins, advice):
    with pytest.raises(
        DataError,
        match=rf"{bins} voxel bins.*({advice}.*NUM_VOXEL_BINS|NUM_VOXEL_BINS.*{advice})",
    ):
        bin_steps(frames, bins)
