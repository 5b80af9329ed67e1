from __future__ import annotations

import numpy as np
from skimage.color import rgb2ycbcr

from vrtspike.deblurring.rgb_images import studio_luma


def test_luma_equals_scikit_image(pair):
    np.testing.assert_allclose(studio_luma(pair[0]), rgb2ycbcr(pair[0])[..., 0], atol=1e-9)
