"""What a metric is: how it is measured, and all that tables and reports must know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from vrtspike.config.problems import Metric
from vrtspike.deblurring.rgb_images import Image

if TYPE_CHECKING:
    import torch

Score = Callable[[Image, Image], float]
"""From (restored, sharp), both uint8 (H, W, 3) RGB, to the figure of one frame."""

Motion: TypeAlias = NDArray[np.float32]
"""What a temporal metric sees between two frames of a clip, such as a flow field (H, W, 2)."""

Anything = TypeVar("Anything")
Loader: TypeAlias = Callable[[Path, "torch.device"], Anything]
"""From the folder of pretrained backbones (WEIGHTS.DIR) and a device to what measures."""


@dataclass(frozen=True)
class ImageMetric(Metric):
    """One metric of restored frames, as tables and reports see it.

    Attributes:
        of_colour: false where an image and its luma have the same figure.
    """

    _: KW_ONLY
    before: str = "blurry"
    after: str = "restored"
    of_colour: bool = True

    @property
    def columns(self) -> tuple[str, str]:
        """Columns of tables: of the blurry frames, and of the restored ones.

        >>> ImageMetric("psnr", "PSNR", "PSNR in dB").columns
        ('psnr_blur', 'psnr')
        """
        return f"{self.name}_blur", self.name

    @property
    def spikes_column(self) -> str:
        """Column of tables: of the spikes alone (``vrtspike.deblurring.evaluation.spikes_alone``).

        >>> ImageMetric("psnr", "PSNR", "PSNR in dB").spikes_column
        'psnr_spikes'
        """
        return f"{self.name}_spikes"


@dataclass(frozen=True)
class FrameMetric(ImageMetric):
    """A metric with a figure for every frame, whatever comes before or after it.

    Attributes:
        load: gives the score; :func:`needs_nothing` where there is nothing to load.
    """

    load: Loader[Score]


@dataclass(frozen=True)
class MotionScore:
    """How a temporal metric measures: what moves between frames, and how far two motions differ.

    Attributes:
        motion: from a frame and the next one, both uint8 (H, W, 3) RGB, to what is seen between.
        distance: from the motion in the restored clip and that in the sharp one to the figure of
            the later frame.
    """

    motion: Callable[[Image, Image], Motion]
    distance: Callable[[Motion, Motion], float]


@dataclass(frozen=True)
class TemporalMetric(ImageMetric):
    """A metric with a figure for every frame but the first of a clip: it compares motions.

    Attributes:
        load: gives the score; :func:`needs_nothing` where there is nothing to load.
    """

    load: Loader[MotionScore]


def needs_nothing(score: Anything) -> Loader[Anything]:
    """A loader of a score that needs nothing but the images."""
    return lambda weights, device: score
