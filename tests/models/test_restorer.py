"""Voxels of a clip: their shape, and their pixels on the grid of the frames."""

from __future__ import annotations

import pytest
import torch

from vrtspike.models.restorer import repeat_pixels, require_voxels

BLUR = torch.zeros(1, 3, 3, 8, 12)


def test_each_spike_pixel_covers_its_pixels_of_the_frame():
    voxels = torch.arange(24.0).view(1, 2, 2, 2, 3)
    expected = voxels.repeat_interleave(4, dim=-2).repeat_interleave(4, dim=-1)
    assert torch.equal(repeat_pixels(voxels, 8, 12), expected)
    assert repeat_pixels(voxels, 2, 3) is voxels


def test_frames_need_no_multiple_of_the_sensor():
    voxels = torch.tensor([[1.0, 2.0]]).view(1, 1, 1, 1, 2)
    # The centres of five pixels at 0.2, 0.6, 1.0, 1.4 and 1.8 sensor pixels.
    assert repeat_pixels(voxels, 1, 5).flatten().tolist() == [1, 1, 2, 2, 2]


@pytest.mark.parametrize("shape", [None, (1, 3, 5, 4, 6), (1, 2, 4, 4, 6)])
def test_missing_voxels_and_other_bins_or_frames_are_refused(shape):
    voxels = None if shape is None else torch.zeros(shape)
    with pytest.raises(ValueError, match=r"expected voxels of shape \(1, 3, 4\) \+ \(h, w\), got"):
        require_voxels(BLUR, voxels, 4)
    whole = torch.zeros(1, 3, 4, 4, 6)
    assert require_voxels(BLUR, whole, 4) is whole
