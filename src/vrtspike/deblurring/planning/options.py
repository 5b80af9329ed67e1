"""Options of the jobs on data, and versions of the folders that they read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.versions import folder_version
from vrtspike.deblurring_settings.workflow_settings import (
    CalibrateSettings,
    SimulatedSequence,
    SimulateSettings,
)
from vrtspike.system.errors import ConfigError

MISSING = "missing"
"""Version used if inputs are missing: the job will hit the same error and report it."""


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


def raw_folder_json(folder: RawFolder) -> str:
    """Return a folder of raw files as options of the programs that read it.

    >>> raw_folder_json(RawFolder("my data"))
    '{"root":"my data","blur_dir":"blur","layout":"auto","spike_root":null,"spike_size":null}'
    """
    return TypeAdapter(RawFolder).dump_json(folder).decode()


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


def inputs_version(title: str, *folders: str | None) -> str:
    """Return a line that changes with the files below folders; touching a file changes nothing.

    Args:
        title: start of the line.
        folders: paths of the folders; None is skipped.
    """
    paths = [Path(folder) for folder in folders if folder]
    version = folder_version(*paths)
    if not version:
        return MISSING
    return f"{title}: {version[:12]}"
