"""Frames kept as pictures: the worst, the middle and the best of every sequence.

``<sequence>/<frame>/{blurry,restored,sharp,spikes}.png`` and ``examples.json``, from which a page
shows them beside each other. The pictures are lossless and of full size, so that differences can be
computed from them; ``spikes.png`` has the size of the sensor.
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
from vrtspike.evaluation.summary import KEYS
from vrtspike.io.files import finite_or_null, write_json
from vrtspike.io.images import write_png
from vrtspike.metrics.metric import ImageMetric

Choice = Literal["worst", "middle", "best"]


@dataclass(frozen=True, eq=False)
class Example:
    """One frame.

    Attributes:
        rank: larger is better, whichever values of the metric are; NaN where it has no figure.
        row: its row of ``frames.csv``.
        pictures: RGB (H, W, 3) or grey (h, w), by the stem of their files.
    """

    rank: float
    row: Mapping[str, Any]
    pictures: Mapping[str, NDArray[np.uint8]]


class Examples:
    """The examples of an evaluation, three of which are held at most.

    Args:
        folder: where they are written.
        metric: decides which frame of a sequence is the worst and the best.
    """

    def __init__(self, folder: Path, metric: ImageMetric) -> None:
        self._folder, self._metric = folder, metric
        self._kept: dict[Choice, Example] = {}
        self._written: list[tuple[float, dict[str, Any]]] = []

    def offer(
        self, row: Mapping[str, Any], pictures: Mapping[str, NDArray[np.uint8]], *, middle: bool
    ) -> None:
        """Consider a frame of the current sequence; of equal figures the first is chosen."""
        figure = float(row[self._metric.name])
        example = Example(figure if self._metric.larger_is_better else -figure, row, pictures)
        if middle:
            self._kept["middle"] = example
        if not math.isnan(figure):
            worst, best = self._kept.get("worst", example), self._kept.get("best", example)
            self._kept["worst"] = min(worst, example, key=lambda each: each.rank)
            self._kept["best"] = max(best, example, key=lambda each: each.rank)

    def end_sequence(self) -> None:
        """Write the chosen frames of the current sequence."""
        for example in dict.fromkeys(self._kept.values()):
            row, sequence, frame = example.row, example.row["sequence"], example.row["frame"]
            files = {stem: f"{sequence}/{frame}/{stem}.png" for stem in example.pictures}
            for stem, picture in example.pictures.items():
                write_png(self._folder / files[stem], picture)
            entry = {
                "sequence": sequence,
                "label": sequence,
                "frame": frame,
                "chosen": [c for c in get_args(Choice) if self._kept.get(c) is example],
                "metrics": finite_or_null({k: v for k, v in row.items() if k not in KEYS}),
                "files": files,
            }
            self._written.append((example.rank, entry))
        self._kept = {}

    def write_index(self) -> None:
        """Write ``examples.json``, the worst example first; those without a figure are last."""
        ranked = sorted(self._written, key=lambda each: (math.isnan(each[0]), each[0]))
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
