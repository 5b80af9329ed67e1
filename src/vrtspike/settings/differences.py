"""Differences between the models of two presets."""

from __future__ import annotations

from vrtspike.config.run_schema import RunSettings
from vrtspike.io.flatten import unequal
from vrtspike.runs.identity import result_settings

_COMMON = ("TYPE", "USE_SPIKE", "SPIKE_ORDER")
"""Keys of MODEL that every model has."""
_LIGHT = "NAF"
"""The section of MODEL that describes the light model; all other keys describe other models."""


def differing_model_keys(
    trained_settings: RunSettings, preset_settings: RunSettings
) -> dict[str, str]:
    """Compare the MODEL sections of a trained model and a preset.

    Keys that describe another network than the model's are left out: they have no effect.

    Args:
        trained_settings: settings of the trained model.
        preset_settings: settings of the preset that starts from the model.

    Returns:
        a line with both values for each key that differs.
    """
    trained = result_settings(trained_settings)["MODEL"]
    preset = result_settings(preset_settings)["MODEL"]
    names = list(_COMMON)
    if trained.get("TYPE") == preset.get("TYPE"):
        if preset.get("TYPE") == "spike_nafnet":
            names.append(_LIGHT)
        else:
            names += [name for name in preset if name not in (_LIGHT, *_COMMON)]
    documents = [
        {"MODEL": {name: model[name] for name in names if name in model}}
        for model in (trained, preset)
    ]
    return {
        key: f"{key} is {value} there, {other} here"
        for key, (value, other) in unequal(*documents).items()
    }
