"""Size of a data set and of its stores, from names and one file of each kind."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vrtspike.data.data_source import DataSource
from vrtspike.data.manifests import surveyed_sequences
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.data.raw.recordings import find_recordings, sequence_sensor
from vrtspike.data.raw.survey import survey_files
from vrtspike.data.store.metadata import StoreMetadata
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.images import read_rgb
from vrtspike.system.errors import DataError

GB = 1e9
_VOXEL_SHRINKAGE = 7
"""Factor by which compression makes voxels smaller (``benchmarks/results/chunks.csv``)."""
_USUAL_STEPS = 88
"""Steps of an exposure whose spike file cannot be read."""


@dataclass(frozen=True)
class DataSize:
    """Size of a data set.

    Attributes:
        sequences: number of sequences of each split.
        frames: number of frames of each split.
        rgb_size: rows and columns of a frame.
        spike_size: rows and columns of the sensor's picture; None without spikes.
        exposure_steps: T of the longest exposure.
        recorded_steps: maximum steps of a store's exposure with context: those of its spike file.
        faults: faults by the name of the sequence or split, as far as file names show them.
    """

    sequences: Mapping[str, int]
    frames: Mapping[str, int]
    rgb_size: tuple[int, int]
    spike_size: tuple[int, int] | None
    exposure_steps: int
    recorded_steps: int
    faults: Mapping[str, list[str]]

    def store_bytes(self, options: StoreOptions) -> int:
        """Return bytes on the disk of the stores of all splits."""
        steps = min(self.recorded_steps, self.exposure_steps + 2 * options.context)
        frame = StoreMetadata(("0",), (steps,), self.rgb_size, self.spike_size, options.bins)
        shrunk = {"voxels": _VOXEL_SHRINKAGE}
        frame_bytes = 0.0
        for name, shape in frame.shapes.items():
            frame_bytes += math.prod(shape) / shrunk.get(name, 1)
        return round(frame_bytes * sum(self.frames.values()))


GOPRO = DataSize(
    {"train": 22, "test": 11}, {"train": 2103, "test": 1111}, (720, 1280), (360, 640), 88, 88, {}
)
"""Placeholder for a data set that does not exist yet."""


def measure_data(data_source: DataSource) -> DataSize:
    """Look at the names of a data set and at one frame of it.

    Raises:
        DataError: if the data set is missing, or none of its sequences can be used.
    """
    data_survey, files_by_sequence = survey_files(data_source, data_source.splits)
    sequences = dict.fromkeys(data_source.splits, 0)
    frames = dict.fromkeys(data_source.splits, 0)
    for sequence in data_survey["sequences"]:
        sequences[sequence["split"]] += 1
        frames[sequence["split"]] += sequence["frames"]
    files = files_by_sequence[surveyed_sequences(data_survey)[0]]
    root = Path(data_source.root)
    height, width, _ = read_rgb(root / next(iter(files.sharp.values()))).shape
    sensor = None
    steps = 0
    recorded = 0
    if data_survey["spikes"]:
        size, area = sequence_sensor(root, files, (height, width), data_source.spike_size)
        sensor = area.size
        lengths = []
        # The check of the files reports their faults.
        with contextlib.suppress(DataError):
            recordings, _ = find_recordings(
                root, files.spikes_by_frame, size, LAYOUTS[files.layout], files.exposures
            )
            lengths = [(spikes.exposure.steps, spikes.total) for spikes in recordings.values()]
        steps, recorded = max(lengths, default=(_USUAL_STEPS, _USUAL_STEPS))
    return DataSize(
        sequences, frames, (height, width), sensor, steps, recorded, data_survey["excluded"]
    )
