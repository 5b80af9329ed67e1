"""Differences between the models of two presets."""

from __future__ import annotations

from vrtspike.deblurring_settings.schema import DeblurringSettings
from vrtspike.io.flatten import differing_values
from vrtspike.runs.identity import result_settings


def differing_model_keys(trained: DeblurringSettings, preset: DeblurringSettings) -> dict[str, str]:
    """Compare the MODEL sections of a trained model and a preset.

    Keys that describe another network than that of one of both are left out.

    Args:
        trained: settings of the trained model.
        preset: settings of the preset that starts from the model.

    Returns:
        a line with both values for each key that differs.
    """
    without_effect = trained.MODEL.keys_of_other_networks | preset.MODEL.keys_of_other_networks
    documents = []
    for settings in (trained, preset):
        model = result_settings(settings)["MODEL"]
        kept = {name: value for name, value in model.items() if name not in without_effect}
        documents.append({"MODEL": kept})
    return {
        key: f"{key} is {value} there, {other} here"
        for key, (value, other) in differing_values(*documents).items()
    }
