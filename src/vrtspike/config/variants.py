"""What an ablation compares a preset with: said by the settings of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """One of the compared models.

    Attributes:
        label: what a reader calls it.
        suffix: of its preset's name.
        override: the key that makes it differ.
        phrase: how a sentence begins that says what becomes of a metric.
        no_worse: what follows where it is no worse than the preset itself; may be empty.
    """

    label: str
    suffix: str
    override: str
    phrase: str
    no_worse: str = ""


@dataclass(frozen=True)
class Ablation:
    """A preset and its variants.

    Attributes:
        title: of the page.
        label: what a reader calls the model of the preset itself.
        phrase: how a sentence ends that compares with it.
        note: what a reader has to know of the models.
        needs: values that keys of the preset have, so that there is something to compare.
        variants: what it is compared with.
    """

    title: str
    label: str
    phrase: str
    note: str
    needs: Mapping[str, object]
    variants: tuple[Variant, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Of all models, that of the preset itself first."""
        return (self.label, *(variant.label for variant in self.variants))

    def origin(self, name: str) -> str | None:
        """The preset that something of this name is derived from; None for any other name."""
        suffixes = (variant.suffix for variant in self.variants)
        return next((name.removesuffix(end) for end in suffixes if name.endswith(end)), None)

    def names(self, preset: str) -> list[str]:
        """The names of what is derived from a preset, in the order of :attr:`variants`."""
        return [preset + variant.suffix for variant in self.variants]
