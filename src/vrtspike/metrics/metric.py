"""A metric: its function, and its description for tables and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.config.tasks import Metric

if TYPE_CHECKING:
    import torch

    from vrtspike.io.backbone_weights import Net

Score = Callable[[Any, Any], float]
"""Maps (restored, sharp) to the value of one frame. Both images are uint8 (H, W, 3) RGB; for a
metric of motion both are pairs of these images, the frame before and the frame."""

Loader = Callable[[Path, "torch.device"], Score]
"""Loads a score from the folder of pretrained backbones (WEIGHTS.DIR), for a device."""


@dataclass(frozen=True)
class ImageMetric(Metric):
    """A metric of restored frames: its function, and its entries in tables and reports.

    Attributes:
        load: returns the score; :func:`needs_nothing` if there is nothing to load.
        backbone: pretrained backbone whose weights are loaded; None without one.
        before: name of the reference, the blurry frames.
        after: name of the result, the restored frames.
        of_motion: compares the motion between neighbouring frames; the first frame of a clip then
            has no value.
        of_color: False if an image and its luma have the same value.
    """

    load: Loader
    _: KW_ONLY
    backbone: Net | None = None
    before: str = "blurry"
    after: str = "restored"
    of_motion: bool = False
    of_color: bool = True

    @property
    def columns(self) -> tuple[str, str]:
        """Columns of tables for the blurry frames and for the restored ones.

        >>> ImageMetric("psnr", "PSNR", "PSNR in dB", needs_nothing(max)).columns
        ('psnr_blur', 'psnr')
        """
        return f"{self.name}_blur", self.name


def needs_nothing(score: Score) -> Loader:
    """Return a loader of a score that needs only the images."""
    return lambda weights, device: score
