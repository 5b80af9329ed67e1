"""Size of a data set and of its stores, from names and one file of each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vrtspike.data.datasets import Dataset
from vrtspike.data.exposure import Exposure
from vrtspike.data.manifests import surveyed
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.recordings import sequence_sensor
from vrtspike.data.raw.spikes import count_spike_frames
from vrtspike.data.raw.survey import survey
from vrtspike.data.store.layout import StoreLayout
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
        spike_frames: T of an exposure.
        faults: faults by the name of the sequence or split, as far as file names show them.
    """

    sequences: Mapping[str, int]
    frames: Mapping[str, int]
    rgb_size: tuple[int, int]
    spike_size: tuple[int, int] | None
    spike_frames: int
    faults: Mapping[str, list[str]]

    def store_bytes(self, bins: int) -> int:
        """Return bytes on the disk of the stores of all splits.

        Args:
            bins: bins of the voxel grid.
        """
        steps = (self.spike_frames,) if self.spike_size else ()
        exposures = tuple(Exposure(0, count, count / 2) for count in steps)
        frame = StoreLayout(("0",), steps, self.rgb_size, self.spike_size, bins, exposures)
        shrunk = {"voxels": _VOXEL_SHRINKAGE}
        frame_bytes = 0.0
        for name, shape in frame.shapes.items():
            frame_bytes += math.prod(shape) / shrunk.get(name, 1)
        return round(frame_bytes * sum(self.frames.values()))


GOPRO = DataSize(
    {"train": 22, "test": 11}, {"train": 2103, "test": 1111}, (720, 1280), (360, 640), 88, {}
)
"""Placeholder for a data set that does not exist yet."""


def measure_data(dataset: Dataset) -> DataSize:
    """Look at the names of a data set and at one frame of it.

    Raises:
        DataError: if the data set is missing, or none of its sequences can be used.
    """
    splits = (dataset.train_split, dataset.test_split)
    contents = survey(
        dataset.root,
        splits,
        dataset.blur_dir,
        dataset.layout,
        spike_root=dataset.spike_root,
    )
    sequences = dict.fromkeys(splits, 0)
    frames = dict.fromkeys(splits, 0)
    for sequence in contents["sequences"]:
        sequences[sequence["split"]] += 1
        frames[sequence["split"]] += sequence["frames"]
    files = find_sequence(
        dataset.root, surveyed(contents)[0], dataset.blur_dir, dataset.layout, dataset.spike_root
    )
    root = Path(dataset.root)
    height, width, _ = read_rgb(root / next(iter(files.sharp.values()))).shape
    sensor = None
    steps = 0
    if contents["spikes"]:
        sensor, steps = _exposure(root, files, (height, width), dataset.spike_size)
    return DataSize(sequences, frames, (height, width), sensor, steps, contents["excluded"])


def _exposure(
    root: Path, files: SequenceFiles, frame: tuple[int, int], spike_size: tuple[int, int] | None
) -> tuple[tuple[int, int], int]:
    """Return the size of the sensor's picture and steps of an exposure."""
    size, area = sequence_sensor(root, files, frame, spike_size)
    path = files.stream or next(iter(files.spikes.values()))
    try:
        total = count_spike_frames(root / path, *size)
    except DataError:
        # The check of the files reports this fault.
        return area.size, _USUAL_STEPS
    steps = total if files.spikes else total // max(1, len(files.sharp))
    return area.size, max(1, steps)
