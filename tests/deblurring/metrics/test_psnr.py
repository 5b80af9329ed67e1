from __future__ import annotations

import pytest
from skimage import metrics as reference
from skimage.color import rgb2ycbcr

from vrtspike.deblurring.metrics.psnr import psnr, psnr_y


def test_psnr_equals_scikit_image(pair):
    assert psnr(*pair) == pytest.approx(reference.peak_signal_noise_ratio(*pair), abs=1e-9)


def test_psnr_y_equals_scikit_image_on_y(pair):
    y = [rgb2ycbcr(image)[..., 0] for image in pair]
    expected = reference.peak_signal_noise_ratio(*y, data_range=255)
    assert psnr_y(*pair) == pytest.approx(expected, abs=1e-6)


@pytest.mark.shared
def test_real_frames_give_the_known_figure(real_pair):
    assert psnr(*real_pair) == pytest.approx(24.05, abs=0.005)
