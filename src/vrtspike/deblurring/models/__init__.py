"""The networks; :mod:`vrtspike.deblurring.models.registry` names them."""

from __future__ import annotations

from vrtspike.deblurring.models.registry import build_model
from vrtspike.deblurring.models.restorer import Restorer
from vrtspike.deblurring.models.vrt_spike import VRTSpike

__all__ = ["Restorer", "VRTSpike", "build_model"]
