"""Modulated deformable convolution guided by a flow."""

from vrtspike.models.deform.definition import KERNEL, POINTS, guided_deform_conv

__all__ = ["KERNEL", "POINTS", "guided_deform_conv"]
