"""The networks; :mod:`vrtspike.models.table` names them."""

from __future__ import annotations

from vrtspike.models.restorer import Restorer
from vrtspike.models.table import build_model
from vrtspike.models.vrt import VRT
from vrtspike.models.vrt_spike import PlainVRT, VRTSpike

__all__ = ["VRT", "PlainVRT", "Restorer", "VRTSpike", "build_model"]
