from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from vrtspike.deblurring.data.clips.augmentation import decimated, turned
from vrtspike.deblurring.data.store.voxels import voxelize


@pytest.mark.parametrize("shape", [(2, 5, 7, 3), (2, 4, 5, 7), (1, 300, 6, 3)])
@pytest.mark.parametrize(
    ("rows", "columns", "swap"), list(itertools.product((False, True), repeat=3))[1:]
)
def test_the_same_as_flip_and_transpose(shape, rows, columns, swap):
    values = torch.randint(0, 256, shape, dtype=torch.uint8)
    first = 1 if shape[-1] == 3 else 2
    axes = [axis for axis, wanted in ((first, rows), (first + 1, columns)) if wanted]
    expected = values.flip(axes)
    if swap:
        expected = expected.transpose(first, first + 1)
    result = turned(values, first, rows, columns, swap)
    assert torch.equal(result, expected)
    assert result.is_contiguous()


def fire(light, theta, charge):
    """An integrate-and-fire sensor in whole numbers: light (T, h, w), charge at the start."""
    charge, spikes = charge.copy(), []
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
        return np.stack([voxelize(exposure, 8) for exposure in np.split(spikes, parts)])

    original = torch.from_numpy(counts(fire(light, theta, charge)))
    higher = counts(fire(light, times * theta, charge + theta * waiting))
    result = decimated(original, times, waiting)
    assert result.dtype == torch.uint8
    np.testing.assert_array_equal(result, higher)
    assert result.sum() > 500


def test_decimation_counts_further_than_a_byte():
    counts = torch.full((3, 2, 1, 1), 255, dtype=torch.uint8)
    result = decimated(counts, 2, np.ones((1, 1), np.int64))
    assert result.flatten().tolist() == [128, 127, 128, 127, 128, 127]
