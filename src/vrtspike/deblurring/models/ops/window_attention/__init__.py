"""Window attention: scaled dot-product attention inside windows of a (D, H, W) map.

Source: shifted windows of Swin (Liu et al., 2021) in three dimensions, and the mutual attention of
two frames, as VRT uses them (Liang et al., 2022, "VRT: A Video Restoration Transformer").
"""

from vrtspike.deblurring.models.ops.window_attention.operation import (
    IMPLEMENTATIONS,
    OPERATION,
    choose_implementation,
    window_attention,
)

__all__ = ["IMPLEMENTATIONS", "OPERATION", "choose_implementation", "window_attention"]
