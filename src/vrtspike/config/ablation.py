"""Presets that an ablation derives from another, to compare it with them.

The derived presets stand in no folder. They are called as the preset they come from, with a suffix,
and differ from it in nothing but what the suffix says.
"""

from __future__ import annotations

from vrtspike.config.loading import laid_over, settings_from
from vrtspike.config.merging import parse_overrides
from vrtspike.config.reading import given_document
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.variants import Ablation, Variant
from vrtspike.errors import ConfigError
from vrtspike.problems import PROBLEMS, find_problem


def every_suffix() -> list[str]:
    """The suffixes of the variants of all problems."""
    ablations = (find_problem(task).SETTINGS.ablation for task in PROBLEMS)
    return [variant.suffix for ablation in ablations if ablation for variant in ablation.variants]


def require_ablation(preset: str, settings: RunSettings) -> Ablation:
    """What a preset is compared with.

    Raises:
        ConfigError: if its problem has no ablation.
    """
    if settings.ablation is None:
        raise ConfigError(
            f"preset {preset}: TASK is {settings.TASK}, which has no ablation; name presets of "
            "another (PRESETS)"
        )
    return settings.ablation


def derive(preset: str, settings: RunSettings, variant: Variant) -> RunSettings:
    """The settings of a derived preset.

    Args:
        preset: the name of what it is derived from, for messages.
        settings: of that preset.
        variant: which one.

    Raises:
        ConfigError: if the preset has not what the ablation takes away, or cannot do with what is
            changed.
    """
    needs = require_ablation(preset, settings).needs
    found = {key: settings.value(key) for key in needs}
    if found != needs:
        key = next(key for key in needs if found[key] != needs[key])
        wanted = " and ".join(f"{name} {_text(value)}" for name, value in needs.items())
        raise ConfigError(
            f"preset {preset}: {key} is {_text(found[key])}; an ablation starts from a preset with "
            f"{wanted}: name such a preset (PRESETS), or remove the key"
        )
    given = given_document(settings.model_dump(mode="json"), f"preset {preset}{variant.suffix}")
    try:
        return settings_from(laid_over(given, parse_overrides([variant.override])))
    except ConfigError as error:
        raise ConfigError(
            f"preset {preset} has no ablation with {variant.label}: {error}"
        ) from error


def _text(value: object) -> str:
    """As YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
