"""Figures of the page on growth, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import growth

    return growth


@pytest.fixture
def trainings(growth):
    return {training.name: training for training in growth.presets()}


def test_bytes_and_files_of_a_data_set(growth):
    data = growth.gopro_like(1000)
    # 3,214 frames in 33 sequences.
    assert data.frames == 97_000
    assert data.raw_bytes == 97_000 * (922_179 + 1_142_916 + 88 * 360 * 80)
    assert data.raw_files == 291_000
    # Frames and bits as they are, counts a seventh.
    frame = 2 * 720 * 1280 * 3 + 88 * 360 * 80 + 32 * 360 * 640 / 7
    assert data.store_bytes == pytest.approx(97_000 * frame, rel=1e-9)
    # Four arrays of ceil(97 / 4) files and a description each, the group's, two manifests.
    assert data.store_files == 1000 * (4 * (25 + 1) + 1 + 2)


def test_the_real_samples_have_the_sizes_of_the_page(growth, shared):
    blur = list((shared / "samples/gopro_test").glob("*/blur/*.png"))
    assert sum(path.stat().st_size for path in blur) // len(blur) == growth.PNG_BYTES["blur"]
    sharp = [*(shared / "samples/gopro_test").glob("*/sharp/*.png")]
    sharp.append(shared / "samples/spk_gopro/000226.png")
    mean = sum(path.stat().st_size for path in sharp) / len(sharp)
    assert mean == pytest.approx(growth.PNG_BYTES["sharp"], abs=1)
    spikes = shared / "samples/spk_gopro/000226.dat"
    assert spikes.stat().st_size == growth.SPIKE_BYTES


def test_gradients_of_a_ring(trainings):
    baseline = trainings["baseline"]
    assert baseline.exchange_bytes(1) == 0
    assert baseline.exchange_bytes(2) == 4 * 24_108_522
    assert baseline.exchange_bytes(64) == 2 * 63 / 64 * 4 * 24_108_522


def test_checkpoints_hold_weights_moments_and_the_average(trainings):
    size = {name: training.checkpoint_bytes for name, training in trainings.items()}
    assert size["baseline"] == 12 * 24_108_522
    assert size["low_memory"] == 6 * 24_108_522
    assert size["reproduce"] == 16 * 24_108_586


def test_a_step_is_all_its_clips(trainings):
    # Six micro-steps of one clip, three of two.
    assert trainings["baseline"].step_s == pytest.approx(6 * 0.1919, rel=1e-3)
    assert trainings["fast"].batch == trainings["baseline"].batch == 6
    assert trainings["low_memory"].batch == 12


def test_tables_are_written_between_their_marks(growth):
    page = "a\n<!-- data -->\nold\n<!-- end of data -->\nb\n"
    assert growth.filled(page, {"data": "new"}) == page.replace("old", "new")
    with pytest.raises(AssertionError, match="no place for the table jobs"):
        growth.filled(page, {"jobs": "new"})


def test_figures_for_a_person(growth):
    assert growth.size(446e9) == "446 GB"
    assert growth.size(1.06e9) == "1.1 GB"
    assert (growth.span(90), growth.span(180)) == ("90 s", "3.0 min")
    assert growth.span(3 * 86400) == "3.0 days"
    assert growth.span(0.0076) == "7.6 ms"


def test_jobs_are_those_of_shares(growth):
    rows = [line.split(" | ") for line in growth.jobs_table().splitlines()[2:]]
    # 15 GB in one share; 446 GB in 16, of at most 128 sequences and 32 GB; then 256 and 2,048.
    assert [row[2] for row in rows] == ["2", "32", "512", "4,096"]
    # 63 sequences of 97 frames, 165 ms each, on 8 cores: 126 s.
    assert rows[1][6] == "2.1 min |"
