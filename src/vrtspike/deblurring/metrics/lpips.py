"""LPIPS of restored frames; lower is better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.deblurring.metrics.metric import FrameMetric, Score

if TYPE_CHECKING:
    import torch


def load_lpips(weights: Path, device: torch.device) -> Score:
    """LPIPS with the AlexNet backbone; nothing is ever downloaded.

    Args:
        weights: folder with the backbone's file under its published name.
        device: where to compute.

    Raises:
        DataError: if the file is missing, or is not the published one.
    """
    # Imported here: tables and reports need the entry below and no network.
    from vrtspike.deblurring.perceptual import FrameDistance, load_lpips_network

    return FrameDistance(load_lpips_network(weights, "alex"), device)


LPIPS = FrameMetric(
    "lpips",
    "LPIPS",
    "LPIPS 0.1 with the AlexNet backbone, per frame on 8-bit RGB; mean over frames, then over "
    "sequences",
    load_lpips,
    larger_is_better=False,
    least_side=31,  # of a smaller one nothing is left after the second pooling of AlexNet
)
