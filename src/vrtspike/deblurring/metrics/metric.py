"""What a metric is: how it is measured, and all that tables and reports must know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.deblurring.metrics.images import Image

if TYPE_CHECKING:
    import torch

Score = Callable[[Image, Image], float]
"""From (restored, sharp), both uint8 (H, W, 3) RGB, to the figure of one frame."""

Loader = Callable[[Path, "torch.device"], Score]
"""From the folder of pretrained backbones (WEIGHTS.DIR) and a device to the score."""


@dataclass(frozen=True)
class Metric:
    """One metric of restored frames.

    Attributes:
        name: what TEST.METRICS and the columns of tables call it.
        title: what sentences call it.
        definition: what exactly is measured, in the words that reports print.
        load: gives the score; :func:`needs_nothing` where there is nothing to load.
        unit: of the figure; empty for none.
        decimals: digits after the point that tables show.
        larger_is_better: false where smaller values are better.
    """

    name: str
    title: str
    definition: str
    load: Loader
    unit: str = ""
    decimals: int = 4
    larger_is_better: bool = True

    @property
    def explanation(self) -> str:
        """The definition, and which values are better where that is not the larger ones."""
        return self.definition if self.larger_is_better else f"{self.definition}; lower is better"

    @property
    def columns(self) -> tuple[str, str]:
        """Columns of tables: of the blurry frames, and of the restored ones.

        >>> Metric("psnr", "PSNR", "PSNR in dB", needs_nothing(lambda a, b: 0.0)).columns
        ('psnr_blur', 'psnr')
        """
        return f"{self.name}_blur", self.name

    @property
    def format(self) -> str:
        """Format specification of a figure, such as ``.2f``."""
        return f".{self.decimals}f"

    def text(self, value: float) -> str:
        """A figure with its unit, such as ``31.20 dB``."""
        return f"{value:{self.format}} {self.unit}".strip()

    def gain(self, value: float, reference: float) -> float:
        """By how much ``value`` is better than ``reference``; negative where it is worse."""
        return value - reference if self.larger_is_better else reference - value

    def best(self, values: Iterable[float]) -> float:
        """The best of some values.

        Raises:
            ValueError: if there are none.
        """
        return max(values) if self.larger_is_better else min(values)


def needs_nothing(score: Score) -> Loader:
    """A loader of a score that needs nothing but the two images."""
    return lambda weights, device: score


def load_metrics(
    metrics: Iterable[Metric], weights: str | Path, device: torch.device
) -> dict[Metric, Score]:
    """Some metrics with their scores, in the given order.

    Args:
        metrics: which ones.
        weights: folder of the pretrained backbones.
        device: where those that have a network compute.

    Raises:
        DataError: if weights that one of them needs are missing or not the published ones.
    """
    return {metric: metric.load(Path(weights), device) for metric in metrics}
