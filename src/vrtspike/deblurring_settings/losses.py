"""Keys of the LOSS section: one class and one key for each loss.

The registry ``LOSSES`` has the term of a key under the same name (:mod:`vrtspike.losses.registry`).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from vrtspike.config.fields import NonNegativeFloat, Positive, PositiveFloat, Section, key

Backbone = Literal["alex", "vgg"]
Layer = Annotated[str, Field(pattern=r"^relu([12]_[12]|[345]_[123])$")]


class LossTermSettings(Section):
    """Keys of every term of the loss."""

    WEIGHT: NonNegativeFloat = key("Weight in the total loss; 0 is off", 0.0)

    @property
    def backbone(self) -> Backbone | None:
        """The published network whose weights the term reads, an input of training; or None."""
        return None

    @property
    def is_in_every_step(self) -> bool:
        """True if the term has a value in every step."""
        return True

    @property
    def faults(self) -> list[str]:
        """Faults that training rejects if the term is on."""
        return []


class CharbonnierSettings(LossTermSettings):
    """sqrt(x^2 + DELTA^2), averaged."""

    WEIGHT: NonNegativeFloat = key("Weight in the total loss; 0 is off", 1.0)
    DELTA: PositiveFloat = key("Transition from quadratic to linear", 1e-3)


class VggSettings(LossTermSettings):
    """Distance of VGG-16 features."""

    WEIGHT: NonNegativeFloat = key(
        "Weight in the total loss; 0 (off) is best for PSNR, 0.1 for perceptual quality", 0.0
    )
    LAYERS: tuple[Layer, ...] = key("Feature layers, such as relu3_3", ("relu3_3",))
    EVERY: Positive = key("Compute it every this many steps", 1)
    WEIGHTS: Literal["pretrained", "random"] = key(
        "Backbone weights: from WEIGHTS.DIR, or random (named so in every log)", "pretrained"
    )

    @property
    def backbone(self) -> Backbone | None:
        """VGG-16, unless it is random."""
        return "vgg" if self.WEIGHTS == "pretrained" else None

    @property
    def is_in_every_step(self) -> bool:
        """True unless EVERY leaves out steps."""
        return self.EVERY == 1

    @property
    def faults(self) -> list[str]:
        """The fault of a term without layers, which compares nothing."""
        if self.LAYERS:
            return []
        return [
            "LOSS.VGG_PERCEPTUAL.LAYERS: found no layer, expected one or more, such as [relu3_3]; "
            "WEIGHT: 0 switches the term off"
        ]


class LpipsSettings(LossTermSettings):
    """LPIPS as a loss."""

    NET: Backbone = key("Backbone", "alex")

    @property
    def backbone(self) -> Backbone | None:
        """The network that NET names."""
        return self.NET


class LossSettings(Section):
    """Terms of the loss, each in float32."""

    CHARBONNIER: CharbonnierSettings = key("Charbonnier loss", CharbonnierSettings())
    VGG_PERCEPTUAL: VggSettings = key("Perceptual loss", VggSettings())
    LPIPS: LpipsSettings = key("LPIPS loss", LpipsSettings())

    @property
    def active(self) -> dict[str, LossTermSettings]:
        """The terms with a positive weight, by their keys, in the order above."""
        terms = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: term for name, term in terms.items() if term.WEIGHT}

    @model_validator(mode="after")
    def _some_term(self) -> Self:
        if not self.active:
            raise ValueError("every term has weight 0; at least one must be positive")
        return self
