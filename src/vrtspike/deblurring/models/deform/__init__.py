"""Modulated deformable convolution guided by a flow."""

from vrtspike.deblurring.models.deform.choice import by_kernels
from vrtspike.deblurring.models.deform.definition import (
    KERNEL,
    POINTS,
    by_point,
    guided_deform_conv,
)
from vrtspike.deblurring.models.deform.guide import guide_by_kernel
from vrtspike.deblurring.models.deform.kernel import deform_by_kernel
from vrtspike.deblurring.models.deform.pairs import beside_frames, neighbours

__all__ = [
    "KERNEL",
    "POINTS",
    "beside_frames",
    "by_kernels",
    "by_point",
    "deform_by_kernel",
    "guide_by_kernel",
    "guided_deform_conv",
    "neighbours",
]
