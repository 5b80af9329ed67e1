from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vrtspike.deblurring.data.bins import bin_edges, bin_table, most_bins
from vrtspike.deblurring.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.deblurring.data.store.voxels import (
    add_to_histogram,
    histogram_statistics,
    normalize_counts,
    voxelize,
    voxelize_packed,
)
from vrtspike.errors import DataError


def random_spikes(frames, height=4, width=6, seed=0, rate=0.4):
    return (np.random.default_rng(seed).random((frames, height, width)) < rate).astype(np.uint8)


@settings(max_examples=100, deadline=None)
@given(frames=st.integers(1, 130), data=st.data())
def test_every_step_falls_into_its_bin_and_into_no_other(frames, data):
    bins = data.draw(st.integers(1, most_bins(spk_gopro_exposure(frames))))
    spikes = random_spikes(frames)
    expected = np.zeros((bins, 4, 6), np.int64)
    edges = bin_edges(spk_gopro_exposure(frames), bins)
    for t in range(frames):
        expected[np.searchsorted(edges, t, side="right") - 1] += spikes[t]
    np.testing.assert_array_equal(
        voxelize(spikes, bins, spk_gopro_exposure(len(spikes)).sharp), expected
    )


def normalized(counts, frames, gains, mean, std):
    """Of clips with exposures of equal numbers: frames (B, T), counts (B, T, K, h, w)."""
    steps = np.stack(
        [bin_table(list(map(spk_gopro_exposure, clip)), np.shape(counts)[2]) for clip in frames]
    )
    gain = torch.tensor(gains, dtype=torch.float32)
    return normalize_counts(torch.from_numpy(counts), torch.from_numpy(steps), gain, mean, std)


def test_normalisation_is_the_definition_from_raw_spikes():
    """Two clips of sensors of different gains, exposures of different lengths within a clip."""
    frames, gains, mean, std = [[56, 88, 89], [104, 24, 56]], [2.0, 3.7], 0.3, 0.17
    spikes = [[random_spikes(t, seed=t + n) for t in clip] for n, clip in enumerate(frames)]
    counts = np.stack(
        [
            [voxelize(exposure, 4, spk_gopro_exposure(len(exposure)).sharp) for exposure in clip]
            for clip in spikes
        ]
    )
    got = normalized(counts, frames, gains, mean, std)
    assert got.dtype == torch.float32
    # First and last step of each bin, written down.
    edges = {
        24: (0, 7, 8, 10, 24), 56: (0, 21, 24, 28, 56), 88: (0, 35, 40, 46, 88),
        89: (0, 35, 40, 46, 89), 104: (0, 42, 48, 55, 104),
    }  # fmt: skip
    for b, clip in enumerate(spikes):
        for t, exposure in enumerate(clip):
            places = edges[len(exposure)]
            for k in range(4):
                rate = exposure[places[k] : places[k + 1]].mean(axis=0)
                expected = (gains[b] * rate - mean) / std
                np.testing.assert_allclose(got[b, t, k], expected, rtol=1e-5, atol=1e-6)


def test_a_constant_rate_does_not_flicker_between_bins_of_1_to_7_steps():
    counts = voxelize(np.ones((88, 2, 2), np.uint8), 32, sharp=40)
    assert np.unique(counts).tolist() == [1, 2, 3, 4, 5, 6, 7]
    got = normalized(counts[None, None], [[88]], [1.0], 0.0, 1.0)
    torch.testing.assert_close(got, torch.ones_like(got))


def test_statistics_from_histograms_are_those_of_all_voxels_and_have_no_order():
    """Three sequences of different gains, two exposures of different lengths in each."""
    parts, values = [], []
    for seed, gain in enumerate((2.0, 4.3, 0.7)):
        histogram = {}
        for frames in (56, 88 + 16 * seed):
            spikes = random_spikes(frames, seed=seed, rate=frames / 200)
            counts = voxelize(spikes, 32, spk_gopro_exposure(len(spikes)).sharp)
            steps = np.diff(bin_edges(spk_gopro_exposure(frames), 32))
            add_to_histogram(histogram, counts, steps)
            values.append((gain * counts / steps[:, None, None]).ravel())
        parts.append((gain, histogram))
    statistics = histogram_statistics(parts)
    everything = np.concatenate(values)
    assert statistics.count == everything.size
    assert statistics.mean == pytest.approx(everything.mean(), rel=1e-12)
    assert statistics.std == pytest.approx(everything.std(), rel=1e-12)
    for order in itertools.permutations(parts):
        assert histogram_statistics(order) == statistics


def test_statistics_of_nothing_or_of_a_constant_are_refused():
    with pytest.raises(DataError, match="empty"):
        histogram_statistics([])
    with pytest.raises(DataError, match="no signal"):
        histogram_statistics([(2.0, {2: np.array([10, 0, 0])})])


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_packed_spikes_give_the_same_counts(data):
    steps, height, width = data.draw(st.tuples(*[st.integers(1, n) for n in (90, 7, 20)]))
    bins = data.draw(st.integers(1, most_bins(spk_gopro_exposure(steps))))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    spikes = random.integers(0, 2, (steps, height, width), dtype=np.uint8)
    counts = voxelize_packed(
        np.packbits(spikes, axis=2, bitorder="little"), bins, spk_gopro_exposure(len(spikes)).sharp
    )
    np.testing.assert_array_equal(
        counts[..., :width], voxelize(spikes, bins, spk_gopro_exposure(len(spikes)).sharp)
    )
    assert not counts[..., width:].any()


def test_arrays_that_are_no_spikes_are_refused():
    spikes = np.ones((16, 2, 8), np.uint8)
    np.testing.assert_array_equal(voxelize(spikes.astype(bool), 4, 4), voxelize(spikes, 4, 4))
    for other in (spikes[0], spikes * 0.5, spikes * 2):
        with pytest.raises(
            DataError, match=r"spikes: found .* expected uint8 \(T, H, W\) of 0 and 1"
        ):
            voxelize(other, 4, 4)
