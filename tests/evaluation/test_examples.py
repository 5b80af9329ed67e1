"""The choice of frames that are kept as pictures, from given values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vrtspike.evaluation.examples import Examples
from vrtspike.io.images import read_gray, read_rgb
from vrtspike.metrics.metric import ImageMetric
from vrtspike.metrics.psnr import PSNR
from vrtspike.metrics.tof import TOF

NAN, INFINITE = float("nan"), float("inf")
KINDS = {"blurry": 0, "restored": 50, "sharp": 100}


def write_examples(
    folder: Path, metric: ImageMetric, **sequences: tuple[float, ...]
) -> dict[str, Any]:
    """The index of sequences with these values; the pictures show the number of their frame."""
    examples = Examples(folder, metric)
    for sequence, values in sequences.items():
        for number, value in enumerate(values):
            row = {"sequence": sequence, "frame": f"{number:03d}", metric.name: value}
            pictures = {k: np.full((6, 8, 3), n + number, np.uint8) for k, n in KINDS.items()}
            pictures["spikes"] = np.full((3, 4), 150 + number, np.uint8)
            examples.offer(row, pictures, middle=number == len(values) // 2)
        examples.end_sequence()
    examples.write_index()
    return json.loads((folder / "examples.json").read_text())


@pytest.mark.parametrize(
    ("metric", "values", "chosen"),
    [
        (PSNR, (30, 20, 25, 40, 35), {"001": ["worst"], "002": ["middle"], "003": ["best"]}),
        (PSNR, (30, 20, 10, 40), {"002": ["worst", "middle"], "003": ["best"]}),
        (PSNR, (30, 20, 20, 40, 40), {"001": ["worst"], "002": ["middle"], "003": ["best"]}),
        (PSNR, (30, 31, INFINITE), {"000": ["worst"], "001": ["middle"], "002": ["best"]}),
        (PSNR, (30,), {"000": ["worst", "middle", "best"]}),
        (PSNR, (NAN, 31, 32), {"001": ["worst", "middle"], "002": ["best"]}),
        (PSNR, (NAN,), {"000": ["middle"]}),
        (TOF, (NAN, 3.0, 1.0, 5.0, 2.0), {"003": ["worst"], "002": ["middle", "best"]}),
    ],
)
def test_the_worst_the_middle_and_the_best_frame_each_once(tmp_path, metric, values, chosen):
    index = write_examples(tmp_path, metric, a=values)
    assert {entry["frame"]: entry["chosen"] for entry in index["examples"]} == chosen
    assert f"the worst and the best {metric.title} of" in index["choice"]


def test_the_index_names_every_picture_the_worst_example_first(tmp_path):
    index = write_examples(tmp_path, PSNR, a=(30, 29, INFINITE), b=(28, 31))
    entries = index["examples"]
    assert [(entry["sequence"], entry["frame"]) for entry in entries] == [
        ("b", "000"), ("a", "001"), ("b", "001"), ("a", "002"),
    ]  # fmt: skip
    assert entries[0] == {
        "sequence": "b",
        "label": "b",
        "frame": "000",
        "chosen": ["worst"],
        "metrics": {"psnr": 28},
        "files": {kind: f"b/000/{kind}.png" for kind in (*KINDS, "spikes")},
    }
    assert entries[-1]["metrics"]["psnr"] is None
    for entry in entries:
        number = int(entry["frame"])
        for kind, base in KINDS.items():
            assert (read_rgb(tmp_path / entry["files"][kind]) == base + number).all()
        assert (read_gray(tmp_path / entry["files"]["spikes"]) == 150 + number).all()
    assert len(list(tmp_path.rglob("*.png"))) == 4 * len(entries)
