"""Sensors that differ from the one of training."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def robustness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import robustness

    return robustness


@pytest.fixture
def frames() -> list[NDArray[np.uint8]]:
    random = np.random.default_rng(0)
    return list(random.integers(40, 200, (6, 32, 48), dtype=np.uint8))


def test_late_spikes_come_late(robustness: ModuleType, frames: list[NDArray[np.uint8]]) -> None:
    known = robustness.Sensor().see(frames, seed=1)
    assert known.shape == (40, 16, 24)
    late, early = (robustness.Sensor(shift=n).see(frames, seed=1) for n in (3, -3))
    np.testing.assert_array_equal(late[3:], known[:-3])
    np.testing.assert_array_equal(late[:3], known[[0, 0, 0]])
    # The frame behind the last one has the steps that come from after the end.
    np.testing.assert_array_equal(early[:-3], known[3:])
    assert not np.array_equal(early[-3:], known[-3:])


def test_a_higher_threshold_has_fewer_spikes(
    robustness: ModuleType, frames: list[NDArray[np.uint8]]
) -> None:
    rates = [robustness.Sensor(theta=theta).see(frames, seed=1).mean() for theta in (1, 2, 4)]
    assert rates[0] == pytest.approx(2 * rates[1], rel=0.05)
    assert rates[1] == pytest.approx(2 * rates[2], rel=0.05)


def test_noise_does_what_it_says(robustness: ModuleType, frames: list[NDArray[np.uint8]]) -> None:
    known = robustness.Sensor().see(frames, seed=1).astype(bool)
    dark = robustness.Sensor(dark=0.1).see(frames, seed=1).astype(bool)
    assert (dark >= known).all()
    assert (dark & ~known).sum() / (~known).sum() == pytest.approx(0.1, abs=0.01)
    dead = robustness.Sensor(dead=0.2).see(frames, seed=1).astype(bool)
    silent = ~dead.any(axis=0) & known.any(axis=0)
    assert silent.mean() == pytest.approx(0.2, abs=0.05)
    np.testing.assert_array_equal(dead[:, ~silent], known[:, ~silent])
    flipped = robustness.Sensor(flipped=0.1).see(frames, seed=1).astype(bool)
    assert (flipped ^ known).mean() == pytest.approx(0.1, abs=0.01)


def test_the_page_states_differences_from_the_sensor_of_training(robustness: ModuleType) -> None:
    found = {name: 27.0 + 0.25 * n for n, name in enumerate(robustness.SENSORS)}
    page = robustness.page({"psnr": found, "steps": 7, "blurry": 24.961})
    assert "(7 steps" in page
    assert "have 24.96 dB" in page
    assert "| threshold 2, as in training | 27.00 | +0.00 |" in page
    assert "| threshold 4 | 27.50 | +0.50 |" in page
