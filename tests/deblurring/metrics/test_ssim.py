from __future__ import annotations

import numpy as np
import pytest
from skimage import metrics as reference
from skimage.color import rgb2ycbcr

from vrtspike.deblurring.metrics.ssim import ssim, ssim_y


def reference_ssim(a: np.ndarray, b: np.ndarray) -> float:
    """scikit-image's SSIM map with the literature's window, cut to the valid region."""
    _, full = reference.structural_similarity(
        a, b, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False,
        full=True,
    )  # fmt: skip
    return float(full[5:-5, 5:-5].mean())


def mean_over_channels(a: np.ndarray, b: np.ndarray) -> float:
    planes = [(a[..., c].astype(float), b[..., c].astype(float)) for c in range(3)]
    return float(np.mean([reference_ssim(*pair) for pair in planes]))


def test_ssim_equals_scikit_image_per_channel(pair):
    assert ssim(*pair) == pytest.approx(mean_over_channels(*pair), abs=1e-9)
    assert 0.3 < ssim(*pair) < 0.99


def test_ssim_y_equals_scikit_image_on_y(pair):
    a, b = (rgb2ycbcr(image)[..., 0] for image in pair)
    assert ssim_y(*pair) == pytest.approx(reference_ssim(a, b), abs=1e-9)


def test_equal_images_are_perfectly_similar(pair):
    assert ssim(pair[1], pair[1]) == pytest.approx(1, abs=1e-12)
    assert ssim_y(pair[1], pair[1]) == pytest.approx(1, abs=1e-12)


def test_ssim_refuses_images_smaller_than_its_window(pair):
    with pytest.raises(ValueError, match="11x11"):
        ssim(pair[0][:10], pair[1][:10])


@pytest.mark.shared
def test_real_frames_give_the_known_figure(real_pair):
    assert ssim(*real_pair) == pytest.approx(mean_over_channels(*real_pair), abs=1e-9)
