"""LPIPS of restored frames; lower is better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vrtspike.data.rgb_images import Image
from vrtspike.metrics.metric import ImageMetric, MetricFunction
from vrtspike.system.errors import DataError

if TYPE_CHECKING:
    import torch
    from torch import nn

MIN_SIDE = 31
"""Minimum height and width in pixels; the last layers of AlexNet have no position in less."""


def frame_score(network: nn.Module, device: torch.device) -> MetricFunction:
    """LPIPS of two frames with a network of :func:`vrtspike.losses.lpips.build_lpips`.

    The function raises a DataError for frames of less than :data:`MIN_SIDE` pixels.
    """
    import torch

    from vrtspike.losses.lpips import LpipsDistance

    distance = LpipsDistance(network).to(device)

    def score(restored: Image, sharp: Image) -> float:
        height, width = sharp.shape[:2]
        if min(height, width) < MIN_SIDE:
            raise DataError(
                f"LPIPS: found frames of {height} x {width} pixels, expected {MIN_SIDE} or more; "
                "leave it out of TEST.METRICS"
            )
        pair = torch.from_numpy(np.stack([restored, sharp])).to(device)
        with torch.inference_mode():
            return float(distance(*(pair.movedim(-1, 1)[:, None].float() / 255)))

    return score


class LpipsMetric(ImageMetric):
    """LPIPS with a pretrained backbone."""

    def load(self, weights: Path, device: torch.device) -> MetricFunction:
        """Return the score with the AlexNet backbone; nothing is ever downloaded."""
        # Imported here, because tables and reports need only the entry below.
        from vrtspike.losses.lpips import load_lpips_network

        return frame_score(load_lpips_network(weights, "alex"), device)


LPIPS = LpipsMetric(
    "lpips",
    "LPIPS",
    "LPIPS 0.1 with the AlexNet backbone, per frame on 8-bit RGB; mean over frames, then over "
    "sequences",
    backbone="alex",
    larger_is_better=False,
)
