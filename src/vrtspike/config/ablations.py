"""Ablations: a preset, and variants of it that lack a part of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """A model of an ablation.

    Attributes:
        label: name of the model in tables.
        suffix: suffix of its preset's name.
        override: the key that differs, with its value.
        phrase: start of the sentence on its metric.
        no_worse: sentence if it is better than the preset by the spread over seeds; may be empty.
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
        title: title of the page.
        label: name of the preset's own model in tables.
        phrase: end of sentences that compare with it.
        note: explanation of the models.
        needs: keys and values that the preset must have.
        variants: the models that it is compared with.
    """

    title: str
    label: str
    phrase: str
    note: str
    needs: Mapping[str, object]
    variants: tuple[Variant, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all models, the preset's own first."""
        return (self.label, *(variant.label for variant in self.variants))

    def origin(self, name: str) -> str | None:
        """Return the preset of a variant's name; None for other names."""
        for variant in self.variants:
            if name.endswith(variant.suffix):
                return name.removesuffix(variant.suffix)
        return None

    def names(self, preset: str) -> list[str]:
        """Return the names of a preset's variants, in the order of :attr:`variants`."""
        return [preset + variant.suffix for variant in self.variants]
