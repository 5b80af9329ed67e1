"""What is told the programs behind the rules that prepare videos."""

from __future__ import annotations

import shlex

from vrtspike.deblurring.data.clips.requirements import clip_length, crop_sizes
from vrtspike.deblurring.settings.workflow import SimulatedSequence, SimulateSettings
from vrtspike.deblurring.videos import Dataset, Videos
from vrtspike.errors import ConfigError


def raw_file_options(dataset: Dataset) -> str:
    """Which raw files a data set has and how they are named."""
    options = {"root": dataset.root, "blur-dir": dataset.blur_dir, "layout": dataset.layout}
    return shlex.join(f"--{name}={value}" for name, value in options.items())


def sensor_option(dataset: Dataset) -> str:
    """The size of the spike sensor where the configuration gives it."""
    size = dataset.spike_size
    return f"--spike-size {size[0]} {size[1]}" if size else ""


def clip_options(videos: Videos, dataset: str) -> str:
    """What the clips that presets take from a data set ask of it at least."""
    presets = [p for name, p in videos.presets.items() if videos.dataset(name).name == dataset]
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
