"""What the benchmark of data measures, on frames of 64 x 96."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import data
import data_made
from vrtspike.deblurring.data.store.reading import Store

SMALL = {"HEIGHT": 64, "WIDTH": 96, "CROP": 32, "CLIP": 2, "FRAMES": 4}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with two sequences of four frames."""
    for module in (data, data_made):
        for name, value in SMALL.items():
            monkeypatch.setattr(module, name, value)
    data_made.make_data(tmp_path, None, None)
    return tmp_path


def figures(found: data.Figures) -> dict[str, float]:
    return {name: value for name, value, _ in found}


def test_both_ways_to_read_give_the_same_voxels_and_rates(made: Path) -> None:
    path = made / "raw/train/s0/spike/000000.dat"
    plain = data_made.plain_voxels(path)
    stored = Store(made / "k32/train/s0.zarr").read(
        "voxels", slice(0, 1), slice(None), slice(None)
    )[0]
    assert plain.sum() > 1000
    np.testing.assert_array_equal(plain, stored)
    found = figures(data.decoding(path))
    ratio = found["voxels: unpackbits and sum (reference)"] / found["voxels: this project"]
    assert found["voxels: reference / this project"] == pytest.approx(ratio)


def test_sizes_checks_and_rates_are_of_the_data(made: Path) -> None:
    manifest = made / "k32/dataset.json"
    sizes = figures(data.megabytes_per_frame(manifest))
    whole = sizes.pop("store: all arrays")
    assert whole == pytest.approx(sum(sizes.values()))
    assert sizes["store: blur"] > 64 * 96 * 3 / 1e6
    checks = figures(data.ingestion(made, made / "ingest/s0.json"))
    ratio = checks["ingest: one frame"] / checks["ingest: reading its files"]
    assert checks["ingest: all / reading"] == pytest.approx(ratio)
    assert checks["voxelize: peak memory"] > 20
    first, again = (data.Samples(data.clips_of(manifest)) for _ in range(2))
    samples = [(one["start"], one["counts"].sum()) for one in (first(), again(), first())]
    assert samples[0] == samples[1]
    assert data.cpu_times({"a": first, "b": lambda: None}, 3)["b"][0] >= 0
    data_made.plain_sample(made / "raw/train/s0", np.random.default_rng(0))
