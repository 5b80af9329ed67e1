"""Which frames are kept as pictures, from figures that are given."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vrtspike.deblurring.evaluation.examples import Examples
from vrtspike.deblurring.metrics.psnr import PSNR
from vrtspike.deblurring.metrics.tof import TOF
from vrtspike.io.images import read_gray, read_rgb

NAN, INFINITE = float("nan"), float("inf")


def example(sequence: str, number: int, scale: float, **figures: float):
    """Row and pictures of a frame; the pictures hold its number."""
    row = {"sequence": sequence, "frame": f"{number:03d}", "scale": scale, **figures}
    kinds = {"blurry": 0, "restored": 50, "sharp": 100}
    pictures = {kind: np.full((6, 8, 3), base + number, np.uint8) for kind, base in kinds.items()}
    return row, pictures | {"spikes": np.full((3, 4), 150 + number, np.uint8)}


def choose(folder: Path, *figures: float, metric=PSNR) -> dict[str, list[str]]:
    """What each frame of a clip with these figures is chosen for."""
    examples = Examples(folder, metric)
    with examples.clip("a", len(figures)) as offer:
        for number, figure in enumerate(figures):
            offer(*example("a", number, 1.0, **{metric.name: figure}))
    examples.write_index()
    entries = json.loads((folder / "examples.json").read_text())["examples"]
    return {entry["frame"]: entry["chosen"] for entry in entries}


@pytest.mark.parametrize(
    ("figures", "chosen"),
    [
        ((30, 20, 25, 40, 35), {"001": ["worst"], "002": ["middle"], "003": ["best"]}),
        ((30, 20, 10, 40), {"002": ["worst", "middle"], "003": ["best"]}),
        ((30, 20, 20, 40, 40), {"001": ["worst"], "002": ["middle"], "003": ["best"]}),
        ((30, 31, INFINITE), {"000": ["worst"], "001": ["middle"], "002": ["best"]}),
        ((30,), {"000": ["worst", "middle", "best"]}),
        ((NAN, 31, 32), {"001": ["worst", "middle"], "002": ["best"]}),
        ((NAN,), {"000": ["middle"]}),
    ],
)
def test_the_worst_the_middle_and_the_best_frame_each_once(tmp_path, figures, chosen):
    assert choose(tmp_path, *figures) == chosen


def test_where_lower_is_better_the_largest_is_the_worst(tmp_path):
    chosen = choose(tmp_path, NAN, 3.0, 1.0, 5.0, 2.0, metric=TOF)
    assert chosen == {"003": ["worst"], "002": ["middle", "best"]}
    assert (
        "tOF of the restored frame (smallest is best)"
        in (json.loads((tmp_path / "examples.json").read_text())["choice"])
    )


def test_the_index_names_every_picture_the_worst_example_first(tmp_path):
    examples = Examples(tmp_path, PSNR)
    for label, scale, figures in (("a", 1.0, (30, 29, INFINITE)), ("a_x0.5", 0.5, (28, 31))):
        with examples.clip(label, len(figures)) as offer:
            for number, figure in enumerate(figures):
                offer(*example("a", number, scale, psnr=figure, psnr_blur=20.0, tof=NAN))
    examples.write_index()
    contents = json.loads((tmp_path / "examples.json").read_text())
    assert contents["schema"] == 1
    assert "worst and the best PSNR" in contents["choice"]
    entries = contents["examples"]
    assert [(entry["label"], entry["frame"]) for entry in entries] == [
        ("a_x0.5", "000"), ("a", "001"), ("a_x0.5", "001"), ("a", "002"),
    ]  # fmt: skip
    assert entries[0] == {
        "sequence": "a",
        "label": "a_x0.5",
        "frame": "000",
        "scale": 0.5,
        "chosen": ["worst"],
        "metrics": {"psnr": 28, "psnr_blur": 20.0, "tof": None},
        "files": {
            kind: f"a_x0.5/000/{kind}.png" for kind in ("blurry", "restored", "sharp", "spikes")
        },
    }
    assert entries[-1]["metrics"]["psnr"] is None
    for entry in entries:
        number = int(entry["frame"])
        for kind, base in (("blurry", 0), ("restored", 50), ("sharp", 100)):
            picture = read_rgb(tmp_path / entry["files"][kind])
            assert picture.shape == (6, 8, 3)
            assert set(np.unique(picture)) == {base + number}
        spikes = read_gray(tmp_path / entry["files"]["spikes"])
        assert spikes.shape == (3, 4)
        assert set(np.unique(spikes)) == {150 + number}
    files = list(tmp_path.rglob("*.png"))
    assert len(files) == 4 * len(entries)


def test_nothing_is_written_of_a_clip_that_failed(tmp_path):
    examples = Examples(tmp_path, PSNR)

    def fail() -> None:
        with examples.clip("a", 2) as offer:
            offer(*example("a", 0, 1.0, psnr=30.0))
            raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        fail()
    assert list(tmp_path.iterdir()) == []
