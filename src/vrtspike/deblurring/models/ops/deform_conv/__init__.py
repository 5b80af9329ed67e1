"""Modulated deformable convolution guided by a flow."""

from vrtspike.deblurring.models.ops.deform_conv.operation import (
    OPERATION,
    conv_of_parts,
    guided_deform_conv,
)
from vrtspike.deblurring.models.ops.deform_conv.reference import KERNEL, POINTS, neighbours

__all__ = [
    "KERNEL",
    "OPERATION",
    "POINTS",
    "conv_of_parts",
    "guided_deform_conv",
    "neighbours",
]
