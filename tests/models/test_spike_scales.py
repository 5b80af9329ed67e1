"""Levels of spikes at the scales of a U-Net."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vrtspike.models.spike_scales import (
    features_of_scales,
    halve_or_double,
    scale_of_sensor,
    side_at,
)

SIZE = (64, 96)


def levels_of(sensor_scale: int, levels: int = 4) -> list[Tensor]:
    """Levels of the spike pyramid of a sensor; each holds its number everywhere."""
    rows, columns = (side_at(side, sensor_scale) for side in SIZE)
    return [
        torch.full((1, 1, side_at(rows, level), side_at(columns, level)), float(level))
        for level in range(levels)
    ]


@pytest.mark.parametrize(
    ("ratio", "expected"), [(1, [0, 1, 2, 3, 3]), (2, [0, 0, 1, 2, 3]), (4, [0, 0, 0, 1, 3])]
)
def test_scales_take_the_levels_of_the_table(ratio, expected):
    sensor_scale = scale_of_sensor(SIZE[0], SIZE[0] // ratio, scales=4)
    features = features_of_scales(levels_of(sensor_scale), sensor_scale, SIZE)
    assert [tuple(x.shape[-2:]) for x in features] == [
        (SIZE[0] // 2**scale, SIZE[1] // 2**scale) for scale in range(5)
    ]
    assert [x.unique().tolist() for x in features] == [[level] for level in expected]


def test_a_sensor_between_two_scales_belongs_to_the_finer_one():
    scales = [scale_of_sensor(64, sensor_rows, scales=4) for sensor_rows in (100, 33, 32, 17, 1)]
    assert scales == [0, 0, 1, 1, 3]
    # Odd sides are rounded up.
    assert scale_of_sensor(65, 33, scales=4) == 1
    assert scale_of_sensor(65, 34, scales=4) == 0


def test_levels_larger_than_their_scale_are_cut_at_the_end():
    levels = [torch.arange(40.0).reshape(1, 1, 5, 8), torch.zeros(1, 1, 3, 4)]
    features = features_of_scales(levels, sensor_scale=0, size=(4, 8))
    assert torch.equal(features[0], levels[0][..., :4, :])


def test_sizes_change_by_means_and_bilinear_interpolation():
    x = torch.arange(8.0).reshape(1, 1, 2, 4)
    assert halve_or_double(x, 0) is x
    assert halve_or_double(x, -1).tolist() == [[[[2.5, 4.5]]]]
    doubled = halve_or_double(x, 1)
    assert doubled.shape == (1, 1, 4, 8)
    assert doubled[0, 0, 0].tolist() == [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]
    assert halve_or_double(x, 2).shape == (1, 1, 8, 16)
