"""Layer norms that write what a product reads: its type, its order, other channels beside them."""

from __future__ import annotations

from vrtspike.deblurring.models.norms.choice import normalised

__all__ = ["normalised"]
