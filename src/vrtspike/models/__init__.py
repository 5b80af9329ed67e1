"""The networks; :mod:`vrtspike.models.registry` names them."""

from __future__ import annotations

from vrtspike.models.registry import build_model
from vrtspike.models.restorer import Restorer
from vrtspike.models.vrt_spike import VRTSpike

__all__ = ["Restorer", "VRTSpike", "build_model"]
