"""Rounding, clipping and channel order of 8-bit images."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vrtspike.data.rgb_images import to_uint8


def test_to_uint8_rounds_clips_and_moves_the_channels():
    frames = torch.zeros(2, 3, 1, 2)
    frames[0, :, 0, 0] = torch.tensor([-0.5, 0.5, 1.5])
    frames[1, :, 0, 1] = torch.tensor([1.0, 2.4 / 255, 2.6 / 255])
    images = to_uint8(frames)
    assert images.shape == (2, 1, 2, 3)
    assert images.dtype == np.uint8
    assert images[0, 0, 0].tolist() == [0, 128, 255]
    assert images[1, 0, 1].tolist() == [255, 2, 3]


def test_to_uint8_refuses_values_that_are_not_finite():
    with pytest.raises(ValueError, match="finite"):
        to_uint8(torch.full((1, 3, 2, 2), float("nan")))
