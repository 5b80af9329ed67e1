"""What the experiments on learning from spikes measure."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def learning(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import learning

    return learning


def test_features_by_hand(learning: ModuleType) -> None:
    spikes = np.zeros((56, 1, 2), np.uint8)
    # The sharp frame of 7 source frames is at step 24.
    spikes[[20, 23, 26, 40], 0, 0] = 1
    rates = learning.rates(np.array([0, 22, 24, 56]))(spikes)
    np.testing.assert_allclose(rates[:, 0, 0], [1 / 22, 1 / 2, 2 / 32])
    # From step 23 to step 26; without a spike on one side up to the end of the exposure.
    np.testing.assert_allclose(learning.interval(spikes)[0, 0], [1 / 3, 1 / 57])
    np.testing.assert_allclose(learning.short_windows(spikes)[:, 0, 0], [1 / 4, 3 / 8, 3 / 16])


def test_laws_of_bins(learning: ModuleType) -> None:
    assert learning.equal_bins(88, 4).tolist() == [0, 22, 44, 66, 88]
    assert learning.even_halves(88, 4).tolist() == [0, 20, 40, 64, 88]


def test_time_and_the_own_frame_are_what_fusion_needs(learning: ModuleType) -> None:
    names = ("attention alone", "and a table of time", "**both**")
    alone, table, both = (learning.unexplained(learning.FUSIONS[name], 120) for name in names)
    assert both < 0.6 * table < 0.6 * 0.8 * alone


def test_the_page_has_all_figures(learning: ModuleType) -> None:
    results = {
        "linear": {"blurry frame": 24.0, "32 equal bins": 33.333},
        "fusion": {"**both**": 0.0123},
        "network": {
            "steps": 9,
            "blurry": 24.96,
            "psnr": {"+ readout": 27.125, "+ direct path": None, "unknown": 1.0},
        },
        "machine": {"torch": "2"},
    }
    section = learning.section(results)
    for line in ("| 32 equal bins | 33.33 |", "| **both** | 0.012 |", "| + readout | 27.12 |"):
        assert line in section
    assert "| + direct path | diverged |" in section
    assert "9 steps; the blurry frames have 24.96 dB" in section
    assert "unknown" not in section
