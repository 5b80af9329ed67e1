"""A metric of restored frames: its function, and its description for tables and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from vrtspike.config.tasks import Metric

if TYPE_CHECKING:
    import torch

    from vrtspike.io.backbone_weights import Net

FrameValues: TypeAlias = NDArray[Any]
"""A frame (H, W, 3) in RGB on the scale of 0 to 255: uint8, or float64 under a protocol that does
not round."""

MetricFunction = Callable[[Any, Any], float]
"""Maps (restored, sharp) to the value of one frame. Both images are uint8 (H, W, 3) RGB; for the
metrics of a protocol that does not round, the restored one is float64 (:data:`FrameValues`). For a
metric of motion both are pairs of these images, the frame before and the frame."""


@dataclass(frozen=True)
class ImageMetric(Metric):
    """A metric of restored frames.

    Attributes:
        backbone: pretrained backbone whose weights are loaded; None without one.
        reference_name: name of the reference, the blurry frames.
        result_name: name of the result, the restored frames.
        measures_motion: compares the motion between neighbouring frames; the first frame of a clip
            then has no value.
        is_color_sensitive: False if an image and its luma have the same value.
    """

    _: KW_ONLY
    backbone: Net | None = None
    reference_name: str = "blurry"
    result_name: str = "restored"
    measures_motion: bool = False
    is_color_sensitive: bool = True

    def load(self, weights: Path, device: torch.device) -> MetricFunction:
        """Return the score.

        Args:
            weights: folder of the pretrained backbones (WEIGHTS.DIR).
            device: the device that computes.

        Raises:
            RunError: if the weights of the backbone are missing, or are not the published ones.
        """
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, str]:
        """Columns of tables for the blurry frames and for the restored ones.

        >>> ImageMetric("psnr", "PSNR", "PSNR in dB").columns
        ('psnr_blur', 'psnr')
        """
        return f"{self.name}_blur", self.name


@dataclass(frozen=True)
class FunctionMetric(ImageMetric):
    """A metric that needs nothing but the images.

    Attributes:
        score: function of two images.
    """

    score: MetricFunction

    def load(self, weights: Path, device: torch.device) -> MetricFunction:
        """Return the score; nothing is loaded."""
        return self.score
