"""Command-line options of the data stages."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from vrtspike.data.clips.requirements import crop_sizes
from vrtspike.data.data_source import DataSource, RawFolder
from vrtspike.data.gate.options import GateOptions
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.settings.generated_data import CalibrateSettings, SimulatedSequence, SimulateSettings
from vrtspike.settings.stores import StoreOptions
from vrtspike.system.errors import ConfigError


def calibration_options(calibrate: CalibrateSettings) -> str:
    """Return options for the calibration of recorded cameras."""
    return _format_options(
        {
            "output": calibrate.ROOT,
            "max_steps": calibrate.MAX_STEPS,
            "static": calibrate.STATIC,
            "moving": calibrate.MOVING,
            "data": calibrate.DATA,
            "sensor": calibrate.SENSOR,
        }
    )


def raw_folder_options(folder: RawFolder) -> str:
    """Return the options of a folder of raw files."""
    return _format_options(
        {
            "root": folder.root,
            "blur_dir": folder.blur_dir,
            "layout": folder.layout,
            "spike_root": folder.spike_root,
        }
    )


def sensor_option(data_source: DataSource) -> str:
    """Return the option for the size of the spike sensor; empty if it is not configured."""
    return _format_options({"spike_size": data_source.spike_size})


def store_options(workflow: DeblurringWorkflow, preset: str, bins: int) -> StoreOptions:
    """Return the options of the stores of a data set.

    Presets with other options than these, the bins apart, have data sets of other names.

    Args:
        workflow: configuration with the presets.
        preset: a preset with the data set.
        bins: K.
    """
    data = workflow.preset(preset).DATA
    return StoreOptions.of(data).model_copy(update={"bins": bins})


def gate_options(workflow: DeblurringWorkflow, preset: str, bins: int) -> GateOptions:
    """Return the requirements of the gate: the smallest clips that presets take from a data set.

    Presets that train nothing count only if there are no others.

    Args:
        workflow: configuration with the presets and their data sets.
        preset: a preset with the data set.
        bins: K.
    """
    data_source = workflow.data_source(preset)
    presets = [
        settings
        for name, settings in workflow.presets.items()
        if workflow.by_preset[name] == data_source
    ]
    trained = [settings for settings in presets if settings.untrained_weights is None]
    if trained:
        presets = trained
    return GateOptions(
        stores=store_options(workflow, preset, bins),
        clip_length=min(settings.DATA.CLIP_LEN for settings in presets),
        crop_sizes=crop_sizes(presets),
        splits=data_source.splits,
        test_on_training_frames=data_source.test_on_training_frames,
        on_error=data_source.on_error,
    )


def simulated_sequence(simulate: SimulateSettings, split: str, sequence: str) -> SimulatedSequence:
    """Return the configured source of a simulated sequence.

    Raises:
        ConfigError: if there is none.
    """
    for source in simulate.SEQUENCES:
        if split == source.SPLIT and sequence == source.SEQUENCE:
            return source
    raise ConfigError(f"SIMULATE.SEQUENCES has no {split}/{sequence}")


def simulation_options(simulate: SimulateSettings, source: SimulatedSequence) -> str:
    """Return options for the simulation of one sequence."""
    sensor = simulate.model_dump(exclude={"ROOT", "SEQUENCES"})
    return _format_options(
        {
            "frames": source.FRAMES,
            "output": simulate.ROOT,
            "frames_per_exposure": source.FRAMES_PER_EXPOSURE,
            **sensor,
        }
    )


def _format_options(values: Mapping[str, Any]) -> str:
    """Format options named after keys; None gives no option, a tuple several words."""
    words: list[str] = []
    for name, value in values.items():
        if value is None:
            continue
        option = f"--{name.lower().replace('_', '-')}"
        if isinstance(value, tuple):
            words += [option, *map(str, value)]
        else:
            words.append(f"{option}={value}")
    return shlex.join(words)
