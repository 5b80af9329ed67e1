"""The voxels that a trained model expects, compared with those of a preset."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from vrtspike.data.clips.run_statistics import read_run_statistics
from vrtspike.data.store.voxels import Statistics
from vrtspike.runs.file_names import STATISTICS
from vrtspike.settings import Settings
from vrtspike.settings.stores import StoreOptions
from vrtspike.system.errors import RunError


@dataclass(frozen=True)
class TrainedVoxels:
    """The voxels that a trained model expects.

    Attributes:
        options: options of the stores that it was trained on.
        statistics: mean and standard deviation that its voxels were standardised with.
    """

    options: StoreOptions
    statistics: Statistics

    @classmethod
    def read(cls, folder: Path, settings: Settings) -> Self:
        """Read the voxels of a model with spikes.

        Args:
            folder: result folder of the model.
            settings: the settings that it was trained with.

        Raises:
            RunError: if its statistics are missing or damaged.
        """
        statistics = read_run_statistics(folder).voxels
        if statistics is None:
            raise RunError(
                f"{folder / STATISTICS}: holds no statistics, but the model takes spikes; copy the "
                "whole folder again"
            )
        return cls(StoreOptions.of(settings.DATA), statistics)

    def differences(
        self, options: StoreOptions, mean: float | None, std: float | None
    ) -> list[str]:
        """Return a line with both values for each key in which the voxels of a preset differ.

        Args:
            options: options of the preset's stores.
            mean: mean that the preset standardises voxels with; None takes the model's.
            std: the same for the standard deviation.
        """
        lines = []
        preset = options.by_key
        for key, value in self.options.by_key.items():
            if preset[key] != value:
                lines.append(f"{key} is {value} there, {preset[key]} here")
        statistics = {
            "DATA.NORM.MEAN": (self.statistics.mean, mean),
            "DATA.NORM.STD": (self.statistics.std, std),
        }
        for key, (trained, chosen) in statistics.items():
            # Values copied from a log are rounded, and data that were read again may differ in the
            # last digits.
            if chosen is not None and not math.isclose(chosen, trained, rel_tol=1e-3):
                lines.append(f"{key} is {trained:g} there, {chosen:g} here")
        return lines
