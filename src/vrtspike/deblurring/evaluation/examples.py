"""Frames kept as pictures: the worst, the middle and the best of every sequence.

``<label>/<frame>/{blurry,restored,sharp,spikes}.png`` and ``examples.json``, from which a page
shows them beside each other. The pictures are lossless and of full size, so that differences can be
computed from them; ``spikes.png`` has the size of the sensor.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vrtspike.analysis.evaluation_files import EXAMPLES_INDEX
from vrtspike.deblurring.evaluation.measure import KEYS
from vrtspike.deblurring.metrics.metric import ImageMetric
from vrtspike.io.files import finite_or_null, write_json
from vrtspike.io.images import write_png

Choice = Literal["worst", "middle", "best"]
CHOICES: tuple[Choice, ...] = ("worst", "middle", "best")

Picture = NDArray[np.uint8]
"""RGB (H, W, 3), or grey (h, w)."""

Offer = Callable[[Mapping[str, Any], Mapping[str, Picture]], None]


@dataclass(frozen=True)
class Example:
    """One frame.

    Attributes:
        rank: larger is better, whichever values of the metric are; NaN where it has no figure.
        row: its row of ``frames.csv``.
        pictures: by the stem of their files.
    """

    rank: float
    row: Mapping[str, Any]
    pictures: Mapping[str, Picture]


class Examples:
    """The examples of an evaluation.

    Args:
        folder: where they are written.
        metric: what decides which frame of a sequence is the worst and the best.
    """

    def __init__(self, folder: Path, metric: ImageMetric) -> None:
        self._folder = folder
        self._metric = metric
        self._written: list[tuple[float, dict[str, Any]]] = []

    @contextlib.contextmanager
    def clip(self, label: str, frames: int) -> Iterator[Offer]:
        """Choose the examples of one clip while its frames pass by; three are held at most.

        Args:
            label: of the clip, a folder's name.
            frames: of the clip.

        Yields:
            A function to call with row and pictures of every frame, in order. Of frames with equal
            figures the first is chosen.
        """
        kept: dict[Choice, Example] = {}
        numbers = itertools.count()

        def offer(row: Mapping[str, Any], pictures: Mapping[str, Picture]) -> None:
            figure = float(row[self._metric.name])
            rank = figure if self._metric.larger_is_better else -figure
            example = Example(rank, row, pictures)
            if next(numbers) == frames // 2:
                kept["middle"] = example
            if not math.isnan(rank):
                kept["worst"] = min(kept.get("worst", example), example, key=lambda e: e.rank)
                kept["best"] = max(kept.get("best", example), example, key=lambda e: e.rank)

        yield offer
        for name in dict.fromkeys(kept[c].row["frame"] for c in CHOICES if c in kept):
            chosen = [c for c in CHOICES if c in kept and kept[c].row["frame"] == name]
            self._write(label, chosen, kept[chosen[0]])

    def _write(self, label: str, chosen: Sequence[Choice], example: Example) -> None:
        row = example.row
        files = {stem: f"{label}/{row['frame']}/{stem}.png" for stem in example.pictures}
        for stem, picture in example.pictures.items():
            write_png(self._folder / files[stem], picture)
        entry = {
            "sequence": row["sequence"],
            "label": label,
            "frame": row["frame"],
            "scale": row["scale"],
            "chosen": chosen,
            "metrics": finite_or_null({k: v for k, v in row.items() if k not in KEYS}),
            "files": files,
        }
        self._written.append((example.rank, entry))

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
