"""A simulation that a user asks for: its checks, its defaults, and the sequences that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from vrtspike.data.raw.layouts.registry import AUTO
from vrtspike.data.raw.layouts.spk_gopro import STEPS_PER_SOURCE_FRAME
from vrtspike.data.simulation.folders import (
    refuse_pairs,
    simulate_folders,
    simulate_spikes_of_pairs,
)
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import FrameFolder, frame_folders
from vrtspike.system.errors import ConfigError

STEPS_OF_PAIRS = 88
"""Spike steps from one frame of a pair to the next, unless an option gives the number."""

_UNUSED = {
    "frames": ("splits", "layout"),
    "source": ("sequence", "splits", "layout"),
    "pairs": ("sequence", "split", "frames_per_exposure", "gamma"),
}
"""Options that change nothing, by the source of the frames."""


def option_name(key: str) -> str:
    """Return the option of a key.

    >>> option_name("STEPS_PER_FRAME")
    '--steps-per-frame'
    """
    return f"--{key.lower().replace('_', '-')}"


@dataclass(frozen=True)
class SimulationRequest:
    """Options of ``scripts/simulate.py``; one of ``frames``, ``source`` and ``pairs`` is given.

    Attributes:
        output: folder of the data set; with ``pairs`` the folder of the spikes.
        sensor: values of :class:`SimulatedSensor` by key, as texts or numbers; without
            STEPS_PER_FRAME a default that depends on the source.
        frames: folder of the pictures of one sequence.
        source: folder with many such folders.
        pairs: data set of blurry and sharp frames.
        splits: splits of ``pairs``.
        layout: layout of ``pairs``.
        split: split of sequences whose folder names none.
        sequence: name of the sequence of ``frames``.
        frames_per_exposure: frames averaged into a blurry one.
    """

    output: Path
    sensor: Mapping[str, object]
    frames: Path | None = None
    source: Path | None = None
    pairs: Path | None = None
    splits: Sequence[str] | None = None
    layout: str | None = None
    split: str | None = None
    sequence: str | None = None
    frames_per_exposure: int | None = None

    def run(self) -> None:
        """Simulate one sequence or many.

        Raises:
            ConfigError: naming options that change nothing, or are out of their range.
            DataError: naming folders whose frames cannot be used.
        """
        self._refuse_unused_options()
        sensor = self._simulated_sensor()
        if self.pairs is not None:
            layout = self.layout or AUTO
            simulate_spikes_of_pairs(self.pairs, self.output, sensor, self.splits, layout)
        else:
            simulate_folders(self._folders(), self.output, sensor, self.frames_per_exposure)

    def _refuse_unused_options(self) -> None:
        """Refuse options that would change nothing."""
        values = {**vars(self), "gamma": self.sensor.get("GAMMA")}
        for source, names in _UNUSED.items():
            options = [option_name(name) for name in names if values[name] is not None]
            if values[source] is not None and options:
                raise ConfigError(
                    f"found {' and '.join(options)} with {option_name(source)}, which changes "
                    "nothing there"
                )

    def _simulated_sensor(self) -> SimulatedSensor:
        """Return the sensor that the options describe."""
        values = dict(self.sensor)
        if values.get("STEPS_PER_FRAME") is None:
            is_of_pairs = self.pairs is not None
            values["STEPS_PER_FRAME"] = STEPS_OF_PAIRS if is_of_pairs else STEPS_PER_SOURCE_FRAME
        try:
            return SimulatedSensor.model_validate(values)
        except ValidationError as error:
            faults = []
            for detail in error.errors():
                options = [option_name(str(name)) for name in detail["loc"]]
                faults.append(": ".join([*options, detail["msg"]]))
            raise ConfigError("; ".join(faults)) from error

    def _folders(self) -> list[FrameFolder]:
        """Return the folders of frames, with the sequences that they become."""
        split = self.split or "train"
        if self.source is not None:
            refuse_pairs(self.source)
            return frame_folders(self.source, split)
        if self.frames is None:
            raise ConfigError("found no frames, expected one of --frames, --source and --pairs")
        name = self.sequence or self.frames.resolve().name
        return [FrameFolder(self.frames, split, name)]
