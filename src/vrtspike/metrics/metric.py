"""What a metric is: how it is measured, and all that tables and reports must know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.config.problems import Metric

if TYPE_CHECKING:
    import torch

Score = Callable[[Any, Any], float]
"""From (restored, sharp) to the figure of one frame. Both are uint8 (H, W, 3) RGB; of a metric of
motion both are pairs of such images, the frame before and the frame."""

Loader = Callable[[Path, "torch.device"], Score]
"""From the folder of pretrained backbones (WEIGHTS.DIR) and a device to what measures."""


@dataclass(frozen=True)
class ImageMetric(Metric):
    """One metric of restored frames: how it is measured, and what tables and reports show.

    Attributes:
        load: gives the score; :func:`needs_nothing` where there is nothing to load.
        of_motion: whether it compares what moves between neighbouring frames; the first frame of a
            clip then has no figure.
        of_colour: false where an image and its luma have the same figure.
    """

    load: Loader
    _: KW_ONLY
    before: str = "blurry"
    after: str = "restored"
    of_motion: bool = False
    of_colour: bool = True

    @property
    def columns(self) -> tuple[str, str]:
        """Columns of tables: of the blurry frames, and of the restored ones.

        >>> ImageMetric("psnr", "PSNR", "PSNR in dB", needs_nothing(max)).columns
        ('psnr_blur', 'psnr')
        """
        return f"{self.name}_blur", self.name


def needs_nothing(score: Score) -> Loader:
    """A loader of a score that needs nothing but the images."""
    return lambda weights, device: score
