"""Kinds of SSIM, compared with scikit-image and with their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.color import rgb2ycbcr
from skimage.metrics import structural_similarity

from tests.deblurring.reference_metrics import similarity, volume_similarity
from vrtspike.io.images import read_rgb
from vrtspike.metrics.ssim import ssim, ssim_3d, ssim_of_values, ssim_uniform, ssim_y
from vrtspike.system.errors import DataError


def test_frames_and_their_luma_have_the_values_of_scikit_image(noisy_and_sharp):
    luma = [rgb2ycbcr(image)[..., 0] for image in noisy_and_sharp]
    assert ssim(*noisy_and_sharp) == pytest.approx(similarity(*noisy_and_sharp), abs=1e-9)
    assert ssim_y(*noisy_and_sharp) == pytest.approx(similarity(*luma), abs=1e-6)


def test_values_that_are_not_rounded_have_the_value_of_scikit_image(noisy_and_sharp):
    values = [image * 0.77 + 3.3 for image in noisy_and_sharp]
    assert ssim_of_values(*values) == pytest.approx(similarity(*values), abs=1e-9)


def test_the_uniform_window_is_that_of_scikit_image_by_default(noisy_and_sharp):
    for images in (noisy_and_sharp, [image - 127.5 for image in noisy_and_sharp]):
        expected = structural_similarity(
            *(image.astype(float) for image in images), data_range=255, channel_axis=-1
        )
        assert ssim_uniform(*images) == pytest.approx(expected, abs=1e-9)


def test_the_volume_has_replicated_borders_on_all_axes(noisy_and_sharp):
    noisy, sharp = (image[20:33, 30:45] for image in noisy_and_sharp)
    assert ssim_3d(noisy, sharp) == pytest.approx(volume_similarity(noisy, sharp), abs=1e-9)
    # Its channels are neighbours: their order counts, unlike in other kinds.
    assert ssim_3d(noisy[..., [1, 0, 2]], sharp[..., [1, 0, 2]]) != pytest.approx(
        ssim_3d(noisy, sharp), abs=1e-6
    )


@pytest.mark.parametrize(("kind", "window"), [(ssim_of_values, 11), (ssim_uniform, 7)])
def test_frames_smaller_than_the_window_are_refused(kind, window):
    fitting = np.zeros((window, window, 3))
    assert kind(fitting, fitting) == 1
    with pytest.raises(DataError, match=rf"{window - 1} x {window} pixels, expected {window} or"):
        kind(fitting[1:], fitting[1:])


@pytest.mark.shared
def test_value_of_a_real_pair_under_the_uniform_window(shared):
    """On [0, 255], where scikit-image's luminance term has another origin than on [-1, 1]."""
    folder = shared / "samples" / "gopro_test" / "GOPR0384_11_00"
    blur, sharp = (read_rgb(folder / kind / "000001.png") for kind in ("blur", "sharp"))
    assert ssim_uniform(blur, sharp) == pytest.approx(0.6954, abs=5e-5)
