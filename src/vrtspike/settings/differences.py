"""Differences between the models of two presets."""

from __future__ import annotations

from typing import Any

from vrtspike.config.run_schema import RunSettings
from vrtspike.io.flatten import unequal
from vrtspike.runs.identity import result_settings

_COMMON = ("TYPE", "USE_SPIKE", "SPIKE_ORDER")
"""Keys of MODEL that every model has."""
_SECTIONS = {"spike_nafnet": "NAF"}
"""Sections of MODEL that describe a model alone; without one, all others do."""


def differing_model_keys(theirs: RunSettings, ours: RunSettings) -> dict[str, str]:
    """A line with both values for each key of MODEL in which a trained model and a preset differ.

    Keys that describe another network than the model's are left out: they have no effect.

    Args:
        theirs: settings of the trained model.
        ours: settings of the preset.
    """
    trained, preset = (result_settings(settings)["MODEL"] for settings in (theirs, ours))
    if trained.get("TYPE") == preset.get("TYPE"):
        names = [*_COMMON, *_network_keys(preset)]
    else:
        names = list(_COMMON)
    models = (
        {"MODEL": {name: model[name] for name in names if name in model}}
        for model in (trained, preset)
    )
    return {
        key: f"{key} is {value} there, {other} here"
        for key, (value, other) in unequal(*models).items()
    }


def _network_keys(model: dict[str, Any]) -> list[str]:
    """The keys of MODEL that describe its network."""
    section = _SECTIONS.get(model.get("TYPE", ""))
    if section is not None:
        return [section]
    return [name for name in model if name not in _SECTIONS.values() and name not in _COMMON]
