"""Differences between the models of two presets."""

from __future__ import annotations

from vrtspike.config.run_schema import RunSettings
from vrtspike.io.flatten import unequal
from vrtspike.runs.identity import result_settings


def differing_model_keys(theirs: RunSettings, ours: RunSettings) -> dict[str, str]:
    """A line with both values for each key of MODEL in which a trained model and a preset differ.

    Args:
        theirs: settings of the trained model.
        ours: settings of the preset.
    """
    models = ({"MODEL": result_settings(settings)["MODEL"]} for settings in (theirs, ours))
    return {
        key: f"{key} is {trained} there, {preset} here"
        for key, (trained, preset) in unequal(*models).items()
    }
