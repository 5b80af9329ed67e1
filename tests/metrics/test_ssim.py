"""SSIM, compared with scikit-image."""

from __future__ import annotations

import pytest
from skimage.color import rgb2ycbcr

from tests.deblurring.reference_metrics import similarity
from vrtspike.metrics.ssim import ssim, ssim_y


def test_frames_and_their_luma_have_the_figures_of_scikit_image(pair):
    luma = [rgb2ycbcr(image)[..., 0] for image in pair]
    assert ssim(*pair) == pytest.approx(similarity(*pair), abs=1e-9)
    assert ssim_y(*pair) == pytest.approx(similarity(*luma), abs=1e-6)
