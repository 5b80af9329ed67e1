from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from skimage import metrics as reference
from skimage.color import rgb2ycbcr

from vrtspike.deblurring.metrics import (
    DEFINITIONS,
    METRICS,
    psnr,
    psnr_y,
    ssim,
    ssim_y,
    studio_luma,
    to_uint8,
)


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    smooth = cv2.GaussianBlur(rng.uniform(0, 255, (47, 61, 3)), (0, 0), 3)
    sharp = np.clip((smooth - smooth.mean()) * 6 + 128, 0, 255).astype(np.uint8)
    noisy = np.clip(sharp + rng.normal(0, 9, sharp.shape), 0, 255).astype(np.uint8)
    return noisy, sharp


def reference_ssim(a: np.ndarray, b: np.ndarray) -> float:
    """scikit-image's SSIM map with the literature's window, cut to the valid region."""
    _, full = reference.structural_similarity(
        a, b, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False,
        full=True,
    )  # fmt: skip
    return float(full[5:-5, 5:-5].mean())


def test_psnr_equals_scikit_image(pair):
    assert psnr(*pair) == pytest.approx(reference.peak_signal_noise_ratio(*pair), abs=1e-9)


def test_psnr_of_a_known_error():
    sharp = np.full((8, 8, 3), 100, np.uint8)
    assert psnr(sharp + np.uint8(1), sharp) == pytest.approx(20 * np.log10(255), abs=1e-12)
    assert psnr(sharp, sharp) == float("inf")


def test_luma_equals_scikit_image(pair):
    np.testing.assert_allclose(studio_luma(pair[0]), rgb2ycbcr(pair[0])[..., 0], atol=1e-9)


def test_psnr_y_equals_scikit_image_on_y(pair):
    y = [rgb2ycbcr(image)[..., 0] for image in pair]
    expected = reference.peak_signal_noise_ratio(*y, data_range=255)
    assert psnr_y(*pair) == pytest.approx(expected, abs=1e-6)


def test_ssim_equals_scikit_image_per_channel(pair):
    a, b = (image.astype(np.float64) for image in pair)
    expected = np.mean([reference_ssim(a[..., c], b[..., c]) for c in range(3)])
    assert ssim(*pair) == pytest.approx(expected, abs=1e-9)
    assert 0.3 < ssim(*pair) < 0.99


def test_ssim_y_equals_scikit_image_on_y(pair):
    a, b = (rgb2ycbcr(image)[..., 0] for image in pair)
    assert ssim_y(*pair) == pytest.approx(reference_ssim(a, b), abs=1e-9)


def test_equal_images_are_perfectly_similar(pair):
    assert ssim(pair[1], pair[1]) == pytest.approx(1, abs=1e-12)
    assert ssim_y(pair[1], pair[1]) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
def test_refuses_what_is_no_pair_of_8_bit_images(metric, pair):
    noisy, sharp = pair
    with pytest.raises(ValueError, match="shapes differ"):
        metric(noisy[:-1], sharp)
    with pytest.raises(ValueError, match="uint8"):
        metric(noisy.astype(np.float32) / 255, sharp)
    with pytest.raises(ValueError, match="uint8"):
        metric(noisy[..., 0], sharp[..., 0])


def test_ssim_refuses_images_smaller_than_its_window(pair):
    with pytest.raises(ValueError, match="11x11"):
        ssim(pair[0][:10], pair[1][:10])


def test_every_metric_has_a_definition():
    assert set(METRICS) | {"lpips"} == set(DEFINITIONS)


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


@pytest.mark.shared
def test_real_frames_give_the_known_figures(shared: Path):
    folder = shared / "samples" / "gopro_test" / "GOPR0384_11_00"
    blur, sharp = (
        cv2.cvtColor(cv2.imread(str(folder / kind / "000001.png")), cv2.COLOR_BGR2RGB)
        for kind in ("blur", "sharp")
    )
    assert psnr(blur, sharp) == pytest.approx(24.05, abs=0.005)
    planes = [(blur[..., c].astype(float), sharp[..., c].astype(float)) for c in range(3)]
    assert ssim(blur, sharp) == pytest.approx(
        np.mean([reference_ssim(*pair) for pair in planes]), abs=1e-9
    )
