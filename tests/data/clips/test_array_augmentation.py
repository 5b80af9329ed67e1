"""Augmentation of arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vrtspike.data.clips.array_augmentation import (
    SensorFaults,
    add_faults,
    decimate_counts,
    halve_pictures,
    halve_sensor,
)
from vrtspike.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.data.store.voxels import voxelize


def fire(light, theta, charge):
    """An integrate-and-fire sensor in whole numbers: light (T, h, w), charge at the start."""
    charge = charge.copy()
    spikes = []
    for step in light:
        charge += step
        spikes.append(charge >= theta)
        charge -= theta * spikes[-1]
    return np.stack(spikes).astype(np.uint8)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_decimated_counts_are_those_of_a_sensor_of_a_higher_threshold(times):
    random = np.random.default_rng(times)
    lengths, theta = (56, 88, 16), 100
    light = random.integers(0, 90, (sum(lengths), 6, 7))
    charge = random.integers(0, theta, (6, 7))
    waiting = random.integers(0, times, (6, 7))
    parts = np.cumsum(lengths)[:-1]

    def counts(spikes):
        return np.stack(
            [
                voxelize(exposure, 8, spk_gopro_exposure(len(exposure)).sharp)
                for exposure in np.split(spikes, parts)
            ]
        )

    original = torch.from_numpy(counts(fire(light, theta, charge)))
    higher = counts(fire(light, times * theta, charge + theta * waiting))
    result = decimate_counts(original, times, waiting)
    assert result.dtype == torch.uint8
    np.testing.assert_array_equal(result, higher)
    assert result.sum() > 500


def test_each_pixel_has_its_own_threshold_not_always_whole():
    counts = torch.ones((2, 5, 1, 2), dtype=torch.uint8)
    result = decimate_counts(counts, np.array([[1.0, 2.5]]), np.array([[0.0, 0.5]]))
    assert result[..., 0].flatten().tolist() == [1] * 10
    # Light of 0.5 + 1, 2, ...: full at 2 (2.5), 5 (5.5 - 2.5 = 3) and so on.
    assert result[..., 1].flatten().tolist() == [0, 1, 0, 0, 1, 0, 1, 0, 0, 1]


def test_decimation_counts_further_than_a_byte():
    counts = torch.full((3, 2, 1, 1), 255, dtype=torch.uint8)
    result = decimate_counts(counts, 2, np.ones((1, 1), np.int64))
    assert result.flatten().tolist() == [128, 127, 128, 127, 128, 127]


def test_faults_have_the_given_rates_and_stay_within_the_steps():
    random = np.random.default_rng(0)
    steps = torch.tensor([[2, 3], [4, 1]], dtype=torch.uint8)
    none = torch.zeros((2, 2, 200, 200), dtype=torch.uint8)
    every = steps[..., None, None].expand_as(none).contiguous()

    def rate(counts, **faults):
        faulty = add_faults(counts, steps, random, SensorFaults(**faults))
        assert faulty.dtype == torch.uint8
        assert (faulty <= every).all()
        return faulty.sum(dtype=torch.float32).item() / every.sum(dtype=torch.float32).item()

    for counts in (none, every):
        assert torch.equal(add_faults(counts, steps, random, SensorFaults()), counts)
    assert rate(none, dark=0.02) == pytest.approx(0.02, rel=0.06)
    assert rate(every, dark=0.02) == 1
    assert rate(none, flipped=0.02) == pytest.approx(0.02, rel=0.06)
    assert rate(every, flipped=0.02) == pytest.approx(0.98, abs=0.002)
    assert rate(none, hot=0.05) == pytest.approx(0.05, rel=0.1)
    assert rate(every, dead=0.05) == pytest.approx(0.95, abs=0.005)
    clip = none.clone()
    add_faults(clip, steps, random, SensorFaults(dark=0.5))
    assert not clip.any(), "the counts that were read may be cached"


def test_late_spikes_go_to_the_next_bin_of_their_exposure():
    steps = torch.full((2, 3), 4, dtype=torch.uint8)
    counts = torch.zeros((2, 3, 100, 100), dtype=torch.uint8)
    counts[0, 0], counts[0, 2] = 4, 4
    faulty = add_faults(counts, steps, np.random.default_rng(1), SensorFaults(late=0.1))
    assert torch.equal(faulty.sum((1, 2, 3)), counts.sum((1, 2, 3)))
    assert torch.equal(faulty[1], counts[1])
    assert torch.equal(faulty[0, 2], counts[0, 2]), "the last spike of an exposure stays in it"
    moved = faulty[0, 1].float().mean().item()
    # Each of the full bin's pixels has a spike in its last step; a second one seldom follows.
    assert moved == pytest.approx(0.1, rel=0.1)


def test_hot_and_dead_pixels_are_the_same_in_all_frames():
    steps = torch.full((3, 4), 5, dtype=torch.uint8)
    counts = torch.full((3, 4, 60, 60), 2, dtype=torch.uint8)
    faults = SensorFaults(hot=0.1, dead=0.1)
    faulty = add_faults(counts, steps, np.random.default_rng(1), faults)
    assert set(faulty.unique().tolist()) == {0, 2, 5}
    assert (faulty == faulty[:1, :1]).all()


def test_a_camera_of_half_the_size_sees_means_of_four_pixels():
    pictures = torch.randint(256, (2, 6, 8, 3), dtype=torch.uint8)
    means = pictures.double().reshape(2, 3, 2, 4, 2, 3).mean(dim=(2, 4))
    halves = halve_pictures(pictures)
    assert halves.dtype == torch.uint8
    assert (halves.double() - means).abs().max() <= 0.5


def test_a_sensor_of_half_the_size_fires_with_the_light_of_four_pixels():
    counts = torch.randint(9, (3, 4, 6, 8), dtype=torch.uint8)
    halves = halve_sensor(counts, np.random.default_rng(0))
    assert (halves.dtype, halves.shape) == (torch.uint8, (3, 4, 3, 4))
    light = counts.double().reshape(3, 4, 3, 2, 4, 2).sum(dim=(3, 5)).reshape(12, 3, 4)
    # A spike for every four: up to any bin less than one spike is waiting.
    waiting = light.cumsum(0) / 4 - halves.double().reshape(12, 3, 4).cumsum(0)
    assert waiting.min() > -1
    assert waiting.max() < 1
    assert not torch.equal(halves, halve_sensor(counts, np.random.default_rng(1)))
