"""What tables and reports must know of a metric, whatever it measures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True)
class Metric:
    """One metric, as tables and reports see it.

    Attributes:
        name: what the columns of tables call it.
        title: what sentences call it.
        definition: what exactly is measured, in the words that reports print.
        unit: of the figure; empty for none.
        decimals: digits after the point that tables show.
        larger_is_better: false where smaller values are better.
        before: what an evaluation compares with: the input, or a forecast that costs nothing.
        after: what the model made.
    """

    name: str
    title: str
    definition: str
    _: KW_ONLY
    unit: str = ""
    decimals: int = 4
    larger_is_better: bool = True
    before: str = "before"
    after: str = "after"

    @property
    def explanation(self) -> str:
        """The definition, and which values are better where that is not the larger ones."""
        return self.definition if self.larger_is_better else f"{self.definition}; lower is better"

    @property
    def label(self) -> str:
        """Title and unit, for an axis.

        >>> Metric("psnr", "PSNR", "...", unit="dB").label, Metric("ssim", "SSIM", "...").label
        ('PSNR, dB', 'SSIM')
        """
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def columns(self) -> tuple[str, str]:
        """Columns of the tables of an evaluation: of what it is compared with, and of the result.

        >>> Metric("rmse", "RMSE", "...", before="persistence").columns
        ('rmse_persistence', 'rmse')
        """
        return f"{self.name}_{self.before}", self.name

    @property
    def kinds(self) -> tuple[str, str, str]:
        """Its figures of an evaluation; the last is by how much the second is better."""
        return self.before, self.after, "gain"

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
