"""Frames kept as pictures: the worst, the middle and the best of every sequence.

``<label>/<frame>/{blurry,restored,sharp,spikes}.png`` and ``examples.json``, from which a page
shows them beside each other. The pictures are lossless and of full size, so that differences can be
computed from them; ``spikes.png`` has the size of the sensor.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
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


@dataclass(frozen=True)
class Example:
    """One frame.

    Attributes:
        row: its row of ``frames.csv``.
        pictures: by the stem of their files.
    """

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
    def clip(self, label: str, frames: int) -> Iterator[Callable[[Example], None]]:
        """Choose the examples of one clip while its frames pass by; three are held at most.

        Args:
            label: of the clip, a folder's name.
            frames: of the clip.

        Yields:
            A function to call with every frame, in order. Of frames with equal figures the first is
            chosen.
        """
        kept: dict[Choice, Example] = {}
        seen = 0

        def offer(example: Example) -> None:
            nonlocal seen
            rank = self._rank(example)
            if seen == frames // 2:
                kept["middle"] = example
            if not math.isnan(rank):
                if "worst" not in kept or rank < self._rank(kept["worst"]):
                    kept["worst"] = example
                if "best" not in kept or rank > self._rank(kept["best"]):
                    kept["best"] = example
            seen += 1

        yield offer
        self._write_clip(label, kept)

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

    def _rank(self, example: Example) -> float:
        """Larger is better, whichever values of the metric are; NaN where it has no figure."""
        figure = float(example.row[self._metric.name])
        return figure if self._metric.larger_is_better else -figure

    def _write_clip(self, label: str, kept: Mapping[Choice, Example]) -> None:
        chosen: dict[str, list[Choice]] = {}
        frames: dict[str, Example] = {}
        for choice in CHOICES:
            if choice in kept:
                name = kept[choice].row["frame"]
                chosen.setdefault(name, []).append(choice)
                frames[name] = kept[choice]
        for name, example in frames.items():
            files = {stem: f"{label}/{name}/{stem}.png" for stem in example.pictures}
            for stem, picture in example.pictures.items():
                write_png(self._folder / files[stem], picture)
            entry = {
                "sequence": example.row["sequence"],
                "label": label,
                "frame": name,
                "scale": example.row["scale"],
                "chosen": chosen[name],
                "metrics": finite_or_null({k: v for k, v in example.row.items() if k not in KEYS}),
                "files": files,
            }
            self._written.append((self._rank(example), entry))
