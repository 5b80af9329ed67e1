"""Clips, steps and hours of a whole training."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from vrtspike.deblurring.settings import Settings

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import training_hours

    return training_hours


def test_hours_follow_from_clips_speed_and_gpus(hours: ModuleType) -> None:
    # Two sequences of 50 frames: 48 clips of 3 frames each, 24 micro-batches of 4 an epoch.
    settings = Settings.model_validate(
        {
            "DATA": {"CLIP_LEN": 3},
            "TRAIN": {"EPOCHS": 10, "BATCH_SIZE": 4, "GRADIENT_ACCUMULATION_STEPS": 2},
        }
    )
    found = hours.plan(settings, 0.5, sequences=2, frames=100)
    assert (found.batch, found.steps, found.clips) == (8, 120, 960)
    # Clips of half the work at 0.1 a second: 0.2 a second.
    assert found.hours(0.1, 1, 0.9) == pytest.approx(960 / 0.2 / 3600)
    assert found.hours(0.1, 8, 0.9) == pytest.approx(960 / 0.2 / 3600 / 7.2)


def test_the_page_shows_the_table_and_what_it_says_of_the_presets(
    hours: ModuleType, repository: Path
) -> None:
    page = (repository / "docs/training.md").read_text(encoding="utf-8")
    options = hours.parse([])
    assert hours.table(options.presets, options) in page
    baseline = hours.plan(hours.load("baseline"), 1.0, hours.SEQUENCES, hours.FRAMES)
    reproduce = hours.plan(hours.load("reproduce"), 1.0, hours.SEQUENCES, hours.FRAMES)
    assert round(baseline.clips, -2) == 80_600
    assert round(baseline.steps, -2) == 13_400
    assert (reproduce.steps, reproduce.clips) == (100_000, 800_000)
