"""PSNR and SSIM, compared with scikit-image."""

from __future__ import annotations

import pytest
from skimage import metrics as reference
from skimage.color import rgb2ycbcr

from tests.deblurring.reference_metrics import similarity
from vrtspike.metrics.psnr import psnr, psnr_y
from vrtspike.metrics.ssim import ssim, ssim_y


def test_frames_and_their_luma_have_the_figures_of_scikit_image(pair):
    luma = [rgb2ycbcr(image)[..., 0] for image in pair]
    expected = reference.peak_signal_noise_ratio(*pair), similarity(*pair)
    assert (psnr(*pair), ssim(*pair)) == pytest.approx(expected, abs=1e-9)
    expected = reference.peak_signal_noise_ratio(*luma, data_range=255), similarity(*luma)
    assert (psnr_y(*pair), ssim_y(*pair)) == pytest.approx(expected, abs=1e-6)
