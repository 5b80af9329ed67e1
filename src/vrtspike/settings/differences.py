"""Differences between the models of two presets."""

from __future__ import annotations

from typing import Any

from vrtspike.config.run_schema import RunSettings
from vrtspike.io.flatten import unequal
from vrtspike.runs.identity import result_settings

_COMMON = ("TYPE", "USE_SPIKE", "SPIKE_ORDER")
"""Keys of MODEL that every model has."""
_SECTIONS = {"spike_nafnet": "NAF"}
"""The section of MODEL that describes a model completely, by type; all other keys describe the
models without one."""


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
        names += _network_keys(preset)
    differences = unequal(_select(trained, names), _select(preset, names))
    return {
        key: f"{key} is {value} there, {other} here" for key, (value, other) in differences.items()
    }


def _select(model: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return a document with some keys of MODEL."""
    return {"MODEL": {name: model[name] for name in names if name in model}}


def _network_keys(model: dict[str, Any]) -> list[str]:
    """Return the keys of MODEL that describe its network."""
    section = _SECTIONS.get(model.get("TYPE", ""))
    if section is not None:
        return [section]
    return [name for name in model if name not in _SECTIONS.values() and name not in _COMMON]
