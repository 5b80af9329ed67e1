"""The configuration as options of the programs behind the rules."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from vrtspike.config.run_schema import RunSettings
from vrtspike.config.workflow import Dataset, SimulatedSequence, SimulateSettings, Workflow
from vrtspike.deblurring.data.clips.requirements import clip_length, crop_sizes
from vrtspike.errors import ConfigError
from vrtspike.flatten import flat_settings


def one_of(names: Iterable[str]) -> str:
    """A wildcard constraint: one of these names.

    >>> one_of(["demo", "low.ram"])
    'demo|low\\\\.ram'
    """
    return "|".join(re.escape(name) for name in names)


def raw_file_options(dataset: Dataset) -> str:
    """Which raw files a data set has and how they are named."""
    options = {"root": dataset.root, "blur-dir": dataset.blur_dir, "layout": dataset.layout}
    return shlex.join(f"--{name}={value}" for name, value in options.items())


def sensor_option(dataset: Dataset) -> str:
    """The size of the spike sensor where the configuration gives it."""
    size = dataset.spike_size
    return f"--spike-size {size[0]} {size[1]}" if size else ""


def clip_options(plan: Workflow, dataset: str) -> str:
    """What the clips that presets take from a data set ask of it at least."""
    presets = [preset for name, preset in plan.videos.items() if plan.dataset(name).name == dataset]
    sizes = [f"{split}={size}" for split, size in crop_sizes(presets).items()]
    return shlex.join(["--clip-length", str(clip_length(presets)), "--crop-sizes", *sizes])


def simulated_sequence(simulate: SimulateSettings, split: str, sequence: str) -> SimulatedSequence:
    """The configured source of a simulated sequence.

    Raises:
        ConfigError: if there is none.
    """
    for source in simulate.SEQUENCES:
        if split == source.SPLIT and sequence == source.SEQUENCE:
            return source
    raise ConfigError(f"SIMULATE.SEQUENCES has no {split}/{sequence}")


def simulation_options(simulate: SimulateSettings, source: SimulatedSequence) -> str:
    """How a sequence is simulated."""
    options = {
        "frames": source.FRAMES,
        "output": simulate.ROOT,
        "frames-per-exposure": source.FRAMES_PER_EXPOSURE,
        "steps-per-frame": simulate.STEPS_PER_FRAME,
        "theta": simulate.THETA,
        "gamma": "none" if simulate.GAMMA is None else simulate.GAMMA,
        "seed": simulate.SEED,
        "interpolation": simulate.INTERPOLATION,
    }
    return shlex.join(f"--{name}={value}" for name, value in options.items())


def evaluation_overrides(settings: RunSettings) -> str:
    """Today's TEST settings for weights that were trained under other ones; empty without any."""
    lines = flat_settings({"TEST": settings.TEST.model_dump(mode="json")})
    return (
        shlex.join(["--set", *(f"{key}={value}" for key, value in lines.items())]) if lines else ""
    )
