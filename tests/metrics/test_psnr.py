"""PSNR, compared with scikit-image."""

from __future__ import annotations

import math

import numpy as np
import pytest
from skimage import metrics as reference
from skimage.color import rgb2ycbcr

from vrtspike.metrics.psnr import psnr, psnr_of_values, psnr_y


def test_frames_and_their_luma_have_the_values_of_scikit_image(noisy_and_sharp):
    luma = [rgb2ycbcr(image)[..., 0] for image in noisy_and_sharp]
    expected = reference.peak_signal_noise_ratio(*noisy_and_sharp)
    assert psnr(*noisy_and_sharp) == pytest.approx(expected, abs=1e-9)
    expected = reference.peak_signal_noise_ratio(*luma, data_range=255)
    assert psnr_y(*noisy_and_sharp) == pytest.approx(expected, abs=1e-6)


def test_values_are_neither_rounded_nor_clipped():
    values = psnr_of_values(np.array([260.5, -0.5]), np.array([250.5, 9.5]))
    assert values == pytest.approx(20 * math.log10(25.5))


def test_equal_frames_have_an_infinite_value(noisy_and_sharp):
    assert (
        psnr(noisy_and_sharp[0], noisy_and_sharp[0])
        == psnr_y(noisy_and_sharp[0], noisy_and_sharp[0])
        == math.inf
    )
