"""LPIPS as a loss."""

from __future__ import annotations

from pathlib import Path

from vrtspike.losses.term import Term
from vrtspike.settings.losses import LpipsSettings


def build_lpips_distance(settings: LpipsSettings, weights: Path) -> Term:
    """Return the term ``lpips``.

    Raises:
        RunError: if the backbone's weights are missing, or not the published ones.
    """
    # Imported here, because only this term needs the package.
    from vrtspike.losses.perceptual import LpipsDistance, load_lpips_network

    network = load_lpips_network(weights, settings.NET)
    return Term("lpips", settings.WEIGHT, LpipsDistance(network))
