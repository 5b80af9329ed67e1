"""Similarity of pictures."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from vrtspike.data.checks.similarity import band_pass


@pytest.mark.parametrize("size", [(90, 160), (45, 61)])
def test_the_band_pass_is_nearly_the_difference_of_two_gaussians(size):
    image = np.random.default_rng(0).random(size, dtype=np.float32)
    image += np.linspace(0, 9, size[1], dtype=np.float32)
    fine = cv2.GaussianBlur(image, (0, 0), 1)
    expected = fine - cv2.GaussianBlur(fine, (0, 0), 9)
    np.testing.assert_allclose(band_pass(image), expected, atol=0.5 * expected.std())
