"""The network: VRT with a spike branch."""

from __future__ import annotations

from vrtspike.models.build import build_model
from vrtspike.models.vrt import VRT
from vrtspike.models.vrt_spike import PlainVRT, Restorer, VRTSpike

__all__ = ["VRT", "PlainVRT", "Restorer", "VRTSpike", "build_model"]
