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


def test_equal_images_are_perfectly_similar(pair):
    assert ssim(pair[1], pair[1]) == pytest.approx(1, abs=1e-12)
    assert ssim_y(pair[1], pair[1]) == pytest.approx(1, abs=1e-12)


def test_ssim_refuses_images_smaller_than_its_window(pair):
    with pytest.raises(ValueError, match="11x11"):
        ssim(pair[0][:10], pair[1][:10])
