"""The presets of an ablation: one with spikes, and what is derived from it to compare it with.

The derived presets stand in no folder. They are called as the preset they come from, with a suffix,
and differ from it in nothing but what the suffix says.
"""

from __future__ import annotations

from dataclasses import dataclass

from vrtspike.config.loading import settings_from
from vrtspike.config.merging import overlay, parse_overrides
from vrtspike.config.reading import given_document
from vrtspike.config.schema import Settings, deblurring_settings
from vrtspike.errors import ConfigError


@dataclass(frozen=True)
class Variant:
    """One of the compared models.

    Attributes:
        label: what a reader calls it.
        suffix: of its preset's name.
        override: the key that makes it differ.
    """

    label: str
    suffix: str
    override: str


SPIKES = "spikes"
"""The label of the preset itself."""

DERIVED = (
    Variant("without spikes", "-without-spikes", "MODEL.USE_SPIKE=false"),
    Variant("shuffled spikes", "-shuffled-spikes", "MODEL.SPIKE_ORDER=shuffled"),
)
"""What a preset with spikes is compared with."""


def derived_names(preset: str) -> list[str]:
    """The names of what is derived from a preset, in the order of :data:`DERIVED`.

    >>> derived_names("demo")
    ['demo-without-spikes', 'demo-shuffled-spikes']
    """
    return [preset + variant.suffix for variant in DERIVED]


def split_name(name: str) -> tuple[str, Variant | None]:
    """A name as its preset and what is derived from that; None for the preset itself.

    >>> name, variant = split_name("demo-without-spikes")
    >>> name, variant.override
    ('demo', 'MODEL.USE_SPIKE=false')
    """
    for variant in DERIVED:
        if name.endswith(variant.suffix):
            return name.removesuffix(variant.suffix), variant
    return name, None


def derive(preset: str, settings: Settings, variant: Variant) -> Settings:
    """The settings of a derived preset.

    Args:
        preset: the name of what it is derived from, for messages.
        settings: of that preset.
        variant: which one.

    Raises:
        ConfigError: if the preset has no spikes in their order to compare with, or cannot do with
            what is changed.
    """
    model = settings.MODEL
    if not model.USE_SPIKE or model.SPIKE_ORDER != "recorded":
        found = "false" if not model.USE_SPIKE else f"true and SPIKE_ORDER {model.SPIKE_ORDER}"
        raise ConfigError(
            f"preset {preset}: MODEL.USE_SPIKE is {found}; an ablation starts from a preset with "
            "USE_SPIKE true and SPIKE_ORDER recorded: name such a preset (PRESETS), or remove the "
            "key"
        )
    given = given_document(settings.model_dump(mode="json"), f"preset {preset}{variant.suffix}")
    try:
        derived = settings_from(overlay(given, parse_overrides([variant.override])))
    except ConfigError as error:
        raise ConfigError(
            f"preset {preset} has no ablation with {variant.label}: {error}"
        ) from error
    return deblurring_settings(derived)
