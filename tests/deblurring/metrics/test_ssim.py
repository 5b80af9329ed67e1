from __future__ import annotations

import pytest
from skimage.color import rgb2ycbcr

from tests.deblurring.reference_metrics import similarity
from vrtspike.deblurring.metrics.ssim import ssim, ssim_y


def test_ssim_equals_scikit_image_per_channel(pair):
    assert ssim(*pair) == pytest.approx(similarity(*pair), abs=1e-9)
    assert 0.3 < ssim(*pair) < 0.99


def test_ssim_y_equals_scikit_image_on_y(pair):
    a, b = (rgb2ycbcr(image)[..., 0] for image in pair)
    assert ssim_y(*pair) == pytest.approx(similarity(a, b), abs=1e-9)
