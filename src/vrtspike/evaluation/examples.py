"""Frames kept as pictures: the worst, the middle and the best of every sequence.

The files are ``<sequence>/<frame>/{blurry,restored,sharp,spikes}.png``, and ``examples.json``, from
which a page shows the pictures side by side. The pictures are lossless and have full size, so that
differences can be computed from them; ``spikes.png`` has the size of the sensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vrtspike.analysis.evaluation_files import EXAMPLES_INDEX
from vrtspike.evaluation.measure import KEYS
from vrtspike.io.files import finite_or_null, write_json
from vrtspike.io.images import write_png
from vrtspike.metrics.metric import ImageMetric

Choice = Literal["worst", "middle", "best"]


@dataclass(frozen=True, eq=False)
class Example:
    """A frame that may become an example.

    Attributes:
        rank: larger is better, whatever the metric; NaN without a value.
        row: its row of ``frames.csv``.
        pictures: RGB (H, W, 3) or grey (h, w), by the stem of their files.
    """

    rank: float
    row: Mapping[str, Any]
    pictures: Mapping[str, NDArray[np.uint8]]


class Examples:
    """The examples of an evaluation, of which at most three are in memory.

    Args:
        folder: folder of their pictures and their index.
        metric: ranks the frames of a sequence.
    """

    def __init__(self, folder: Path, metric: ImageMetric) -> None:
        self._folder = folder
        self._metric = metric
        self._kept: dict[Choice, Example] = {}
        self._written: list[tuple[float, dict[str, Any]]] = []

    def offer(
        self, row: Mapping[str, Any], pictures: Mapping[str, NDArray[np.uint8]], *, middle: bool
    ) -> None:
        """Consider a frame of the current sequence; the first of equal values is chosen.

        Args:
            row: row of ``frames.csv``.
            pictures: pictures by the stem of their files.
            middle: it is the frame in the middle.
        """
        value = float(row[self._metric.name])
        rank = value if self._metric.larger_is_better else -value
        example = Example(rank, row, pictures)
        if middle:
            self._kept["middle"] = example
        if math.isnan(rank):
            return
        if "worst" not in self._kept or rank < self._kept["worst"].rank:
            self._kept["worst"] = example
        if "best" not in self._kept or rank > self._kept["best"].rank:
            self._kept["best"] = example

    def end_sequence(self) -> None:
        """Write the chosen frames of the current sequence."""
        for example in dict.fromkeys(self._kept.values()):
            row = example.row
            sequence = row["sequence"]
            frame = row["frame"]
            files = {stem: f"{sequence}/{frame}/{stem}.png" for stem in example.pictures}
            metrics = {name: value for name, value in row.items() if name not in KEYS}
            for stem, picture in example.pictures.items():
                write_png(self._folder / files[stem], picture)
            entry = {
                "sequence": sequence,
                "label": sequence,
                "frame": frame,
                "chosen": [name for name in get_args(Choice) if self._kept.get(name) is example],
                "metrics": finite_or_null(metrics),
                "files": files,
            }
            self._written.append((example.rank, entry))
        self._kept = {}

    def write_index(self) -> None:
        """Write ``examples.json``, the worst example first, those without a value last."""
        ranked = sorted(self._written, key=lambda written: (math.isnan(written[0]), written[0]))
        best = "largest" if self._metric.larger_is_better else "smallest"
        contents = {
            "schema": 1,
            "choice": (
                f"of every sequence the frame in the middle, and those with the worst and the best "
                f"{self._metric.title} of the restored frame ({best} is best)"
            ),
            "examples": [entry for _, entry in ranked],
        }
        write_json(self._folder / EXAMPLES_INDEX, contents)
