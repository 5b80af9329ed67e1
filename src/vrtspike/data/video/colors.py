"""Conversion between 8-bit RGB and the colours of video (Y'CbCr)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vrtspike.data.rgb_images import Image

if TYPE_CHECKING:
    import av

BT709 = 1
"""Matrix, primaries and transfer of high-definition video, in the numbers of H.264."""
_BT601 = 5
_UNSPECIFIED = 2
_HIGH_DEFINITION = 720
"""Rows from which on players take video of unspecified colours for BT.709, below for BT.601."""
_EXACT = 0x2 | 0x40000 | 0x2000 | 0x4000
"""Flags of swscale: bilinear, accurate rounding, full chroma when writing and when reading RGB.

Without them every channel becomes 1 to 2 grey levels too dark; with them the mean of a channel is
exact to 0.1.
"""


def to_video_frame(image: Image) -> av.VideoFrame:
    """Convert an RGB image of even sides to BT.709, yuv420p, 16 to 235."""
    import av

    return av.VideoFrame.from_ndarray(image, format="rgb24").reformat(
        format="yuv420p",
        dst_colorspace=BT709,
        src_color_range="JPEG",
        dst_color_range="MPEG",
        interpolation=_EXACT,
    )


def to_rgb(frame: av.VideoFrame) -> Image:
    """Convert a decoded frame to uint8 (H, W, 3) RGB, turned as its player would turn it."""
    colors = int(frame.colorspace)
    if colors == _UNSPECIFIED:
        colors = BT709 if frame.height >= _HIGH_DEFINITION else _BT601
    converted = frame.reformat(
        format="rgb24", src_colorspace=colors, dst_color_range="JPEG", interpolation=_EXACT
    )
    image = converted.to_ndarray().astype(np.uint8, copy=False)
    return np.ascontiguousarray(np.rot90(image, frame.rotation // 90))
