"""The clip that a user gives: blurry frames with spike files, with arrays or without spikes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import EXPOSURE_TABLE, Exposure
from vrtspike.data.raw.layouts.registry import spike_layout
from vrtspike.data.voxels.bins import bin_edges, bin_table
from vrtspike.data.voxels.gain import GainEstimator
from vrtspike.deblurring_settings import require_deblurring_settings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.restoration.inputs.clip_frames import ClipFrames, InputFrames, open_frames
from vrtspike.restoration.inputs.clip_source import ClipSource
from vrtspike.restoration.inputs.clip_spikes import (
    ClipSpikes,
    array_spikes,
    recorded_spikes,
    simulated_spikes,
)
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import ConfigError

InputSpikes: TypeAlias = str | Path | NDArray[np.uint8] | Sequence[NDArray[np.uint8]]
"""Recorded spikes: a folder or a file, an array (S, h, w) for a whole clip, or one per frame."""


class InputClip(ClipSource):
    """Blurry frames with their spikes, if any.

    A single reader suffices to read ahead: a video is decoded by one thread at a time.

    Args:
        clip_frames: the blurry frames.
        spikes: their spikes; None for a model without.
        options: options of the voxel grids, as of the stores that the model was trained on.
    """

    def __init__(
        self, clip_frames: ClipFrames, spikes: ClipSpikes | None, options: StoreOptions
    ) -> None:
        ratio = Fraction(1) if spikes is None else spikes.ratio
        super().__init__(clip_frames.names, clip_frames.size, ratio)
        self.bits = clip_frames.bits
        self.frames = clip_frames
        self.spikes = spikes
        self.options = options

    def blurry_frames(self, frames: slice) -> NDArray[Any]:
        """Return consecutive frames with all bits: uint8, or float32 from 0 to 255."""
        return self.frames.model_input(frames)

    def count_spikes(self, frames: slice) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Count the spikes of consecutive frames of a clip with spikes."""
        assert self.spikes is not None
        counts = []
        binned = []
        for frame in self.spikes.frames[frames]:
            recorded, exposure = frame.around(self.options.context)
            with_context = Exposure(0, len(recorded), exposure.sharp)
            counts.append(recorded.counts(bin_edges(with_context, self.options.bins)))
            binned.append(with_context)
        return np.stack(counts), bin_table(binned, self.options.bins)

    def gain(self) -> float | None:
        """Return the gain of the clip; the first call reads all frames and spikes."""
        return self._gain_and_rate[0]

    def rate(self) -> float | None:
        """Return the mean spikes of a pixel per step of the exposures; None without spikes."""
        return self._gain_and_rate[1]

    @cached_property
    def _gain_and_rate(self) -> tuple[float | None, float | None]:
        """Both are measured at once, with one frame in memory at a time."""
        if self.spikes is None:
            return None, None
        meter = GainEstimator()
        spike_count = 0.0
        pixel_steps = 0
        for index, frame in enumerate(self.spikes.frames):
            counts = frame.read(frame.exposure).count_image()
            meter.update(self.frames.frame(index), counts, frame.exposure.steps)
            spike_count += float(counts.sum(dtype=np.float64))
            pixel_steps += counts.size * frame.exposure.steps
        return meter.gain(self.spikes.location), spike_count / pixel_steps


def open_clip(
    run: RunIdentity,
    frames: InputFrames,
    spikes: InputSpikes | None = None,
    *,
    simulate_spikes: bool = False,
    sensor: tuple[int, int] | None = None,
    layout: str | None = None,
    exposures: Sequence[Exposure] | None = None,
) -> InputClip:
    """Open a clip with the spikes that the model of a run takes.

    Args:
        run: run that trained the model.
        frames: a folder of pictures, a video file, or an array.
        spikes: recorded spikes.
        simulate_spikes: simulate them from the blurry frames.
        sensor: rows and columns of spike files; None as for
            :func:`~vrtspike.restoration.inputs.clip_spikes.recorded_spikes`.
        layout: layout of spikes, by its name; None is that of the run's data set, if it was named
            there, else Spk-GoPro's.
        exposures: exposures of spikes in memory; None takes those of the layout.

    Raises:
        ConfigError: if the model takes spikes and there are none, or the other way round; or if an
            option has an unknown value, or describes other spikes than those given.
        DataError: if frames or spikes cannot be used.
    """
    settings = require_deblurring_settings(run.settings, run.name)
    _require_fitting_options(spikes, sensor, layout, exposures)
    clip_frames = open_frames(frames)
    _require_one_source(run, spikes, simulate_spikes, settings.MODEL.USE_SPIKE)
    clip_layout = spike_layout(settings.DATA.LAYOUT if layout is None else layout)
    clip_spikes = None
    if simulate_spikes:
        clip_spikes = simulated_spikes(clip_frames)
    elif isinstance(spikes, str | Path):
        size = None if sensor is None else (int(sensor[0]), int(sensor[1]))
        clip_spikes = recorded_spikes(clip_frames, Path(spikes), size, clip_layout)
    elif spikes is not None:
        times = clip_layout if exposures is None else exposures
        clip_spikes = array_spikes(clip_frames, spikes, times)
    return InputClip(clip_frames, clip_spikes, StoreOptions.from_settings(settings.DATA))


def _require_one_source(
    run: RunIdentity, spikes: InputSpikes | None, simulate_spikes: bool, takes_spikes: bool
) -> None:
    """Require exactly one source of spikes for a model with spikes, and none for any other.

    Raises:
        ConfigError: with the choices.
    """
    is_recorded = spikes is not None
    if takes_spikes and is_recorded == simulate_spikes:
        expected = (
            "takes spikes (MODEL.USE_SPIKE is true); give either recorded spikes or have spikes "
            "simulated"
        )
    elif not takes_spikes and (is_recorded or simulate_spikes):
        expected = (
            "was trained without spikes (MODEL.USE_SPIKE is false); leave out recorded and "
            "simulated spikes"
        )
    else:
        return
    raise ConfigError(f"the model of run {run.name} ({run.fingerprint}) {expected}")


def _require_fitting_options(
    spikes: InputSpikes | None,
    sensor: tuple[int, int] | None,
    layout: str | None,
    exposures: Sequence[Exposure] | None,
) -> None:
    """Reject options of an unknown value, and those that do not describe the given spikes.

    Raises:
        ConfigError: with the remedy.
    """
    for option, value in {"sensor": sensor, "layout": layout}.items():
        if spikes is None and value is not None:
            raise ConfigError(
                f"{option}: describes recorded spikes, and there are none: give them (spikes), or "
                f"leave {option} out; the simulated sensor has half the frames' size"
            )
    spike_layout(layout)
    is_in_files = isinstance(spikes, str | Path)
    if sensor is not None:
        if not is_in_files:
            raise ConfigError("sensor: only spikes in files take it; arrays have a size themselves")
        if not _is_size(sensor):
            raise ConfigError(
                f"sensor: found {sensor!r}, expected its rows and columns, two positive numbers"
            )
    if exposures is not None:
        if spikes is None or is_in_files:
            raise ConfigError(
                f"exposures: only spikes in memory take them; files have {EXPOSURE_TABLE}"
            )
        if not isinstance(exposures, Sequence) or not all(
            isinstance(exposure, Exposure) for exposure in exposures
        ):
            raise ConfigError(
                f"exposures: found {exposures!r}, expected a vrtspike.Exposure for each frame"
            )


def _is_size(value: object) -> bool:
    """Return whether a value is a pair of positive integers, of Python or NumPy."""
    if not isinstance(value, Sequence) or len(value) != 2:
        return False
    return all(isinstance(side, int | np.integer) and side > 0 for side in value)
