"""The benchmark of data, on frames of 64 x 96."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import data
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.store.reading import Store

SMALL = {"HEIGHT": 64, "WIDTH": 96, "CROP": 32, "CLIP": 2, "FRAMES": 4, "COPIES": 3}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with two sequences of four frames."""
    for name, value in SMALL.items():
        monkeypatch.setattr(data, name, value)
    data.make_data(tmp_path)
    return tmp_path


def test_both_ways_to_read_give_the_same_voxels(made: Path) -> None:
    path = min((made / "raw/train/s0/spike").glob("*.dat"))
    plain = data.plain_voxels(path)
    stored = Store(made / "k32/train/s0.zarr").read(
        "voxels", slice(0, 1), slice(None), slice(None)
    )[0]
    assert plain.sum() > 1000
    np.testing.assert_array_equal(plain, stored)
    data.plain_sample(made / "raw/train/s0", np.random.default_rng(0))


def test_sizes_and_samples_are_of_the_data(made: Path) -> None:
    manifest = made / "k32/dataset.json"
    sizes = {name: value for name, value, _ in data.megabytes_per_frame(manifest)}
    assert sizes["store: blur"] > 64 * 96 * 3 / 1e6
    first, again = (data.Samples(data.clips_of(manifest)) for _ in range(2))
    samples = [(one.blur.sum(), one.spikes.counts.sum()) for one in (first(), again(), first())]
    assert samples[0] == samples[1]
    assert {name: value > 0 for name, value, _ in data.ingestion(made)} == {
        **dict.fromkeys(("ingest: reading its files", "ingest: one frame"), True),
        **dict.fromkeys(("voxelize: one frame", "voxelize: peak memory"), True),
    }


def test_copies_hold_the_same_frames_under_other_names(made: Path) -> None:
    repeated = data.repeat_data(made / "many", made / "k32/train/s0.json")
    entries = load_dataset(repeated).split("train")
    assert [(entry.name, entry.frames) for entry in entries] == [(f"s{n}", 4) for n in range(3)]
