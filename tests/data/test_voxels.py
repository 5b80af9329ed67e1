from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vrtspike.data.spikes import read_rows, read_spikes
from vrtspike.data.voxels import (
    add_to_histogram,
    bin_edges,
    bin_steps,
    histogram_statistics,
    merge_histograms,
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
    bins = data.draw(st.integers(1, frames))
    spikes = random_spikes(frames)
    expected = np.zeros((bins, 4, 6), np.int64)
    for t in range(frames):
        expected[t * bins // frames] += spikes[t]
    np.testing.assert_array_equal(voxelize(spikes, bins), expected)
    assert bin_steps(frames, bins).sum() == frames
    assert bin_steps(frames, bins).min() >= 1
    assert bin_edges(frames, bins)[0] == 0


def test_88_steps_in_32_bins_are_2_or_3():
    assert sorted(set(bin_steps(88, 32).tolist())) == [2, 3]


@pytest.mark.parametrize(("frames", "bins"), [(24, 32), (10, 0), (300, 1)])
def test_bins_that_cannot_be_filled_or_held_are_refused(frames, bins):
    with pytest.raises(DataError, match=r"DATA\.K"):
        voxelize(random_spikes(frames), bins)


@settings(max_examples=40, deadline=None)
@given(
    frames=st.lists(st.sampled_from([24, 56, 64, 88, 104]), min_size=1, max_size=3),
    bins=st.integers(1, 24),
)
def test_normalisation_is_the_definition_in_float64(frames, bins):
    mean, std = 0.3, 0.17
    counts = np.stack([voxelize(random_spikes(t, seed=t), bins) for t in frames])
    got = normalize_counts(torch.from_numpy(counts), torch.tensor(frames), mean, std)
    assert got.dtype == torch.float32
    for n, t in enumerate(frames):
        rate = counts[n] / bin_steps(t, bins)[:, None, None]
        np.testing.assert_allclose(got[n], (np.log1p(rate) - mean) / std, rtol=1e-5, atol=1e-5)


def test_a_constant_rate_does_not_flicker_between_bins_of_2_and_3_steps():
    counts = voxelize(np.ones((88, 2, 2), np.uint8), 32)
    assert len(np.unique(counts)) == 2
    got = normalize_counts(torch.from_numpy(counts), torch.tensor(88), 0.0, 1.0)
    torch.testing.assert_close(got, torch.full_like(got, np.log(2)))


def test_statistics_from_merged_histograms_are_those_of_all_voxels():
    parts, values = [], []
    for frames in (56, 88, 104):
        histogram = {}
        for seed in range(3):
            counts = voxelize(random_spikes(frames, seed=seed, rate=frames / 200), 32)
            add_to_histogram(histogram, counts, frames)
            values.append(np.log1p(counts / bin_steps(frames, 32)[:, None, None]).ravel())
        parts.append(histogram)
    statistics = histogram_statistics(merge_histograms(parts))
    everything = np.concatenate(values)
    assert statistics.count == everything.size
    assert statistics.mean == pytest.approx(everything.mean(), rel=1e-12)
    assert statistics.std == pytest.approx(everything.std(), rel=1e-12)


def test_statistics_of_nothing_or_of_a_constant_are_refused():
    with pytest.raises(DataError, match="empty"):
        histogram_statistics({})
    with pytest.raises(DataError, match="no signal"):
        histogram_statistics({2: np.array([10, 0, 0])})


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_packed_spikes_give_the_same_counts(data):
    steps, height, width = data.draw(st.tuples(*[st.integers(1, n) for n in (90, 7, 20)]))
    bins = data.draw(st.integers(1, steps))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    spikes = random.integers(0, 2, (steps, height, width), dtype=np.uint8)
    counts = voxelize_packed(np.packbits(spikes, axis=2, bitorder="little"), bins)
    np.testing.assert_array_equal(counts[..., :width], voxelize(spikes, bins))
    assert not counts[..., width:].any()


@pytest.mark.shared
@pytest.mark.parametrize("bins", [1, 5, 32, 88])
def test_real_spikes_counted_either_way(shared, bins):
    path = shared / "samples" / "spk_gopro" / "000226.dat"
    spikes, rows = read_spikes(path, 360, 640), read_rows(path, 360, 640)
    whole = voxelize(spikes, bins)
    np.testing.assert_array_equal(voxelize_packed(rows, bins), whole)
    # A crop that begins within a byte.
    part = voxelize_packed(rows[:, 51:179, 12:29], bins)[..., 5 : 5 + 128]
    np.testing.assert_array_equal(part, whole[:, 51:179, 101:229])
