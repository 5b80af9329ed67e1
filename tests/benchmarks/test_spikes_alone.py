"""Results of ``benchmarks/spikes_alone.py``; the baseline is the best reconstruction."""

from __future__ import annotations

from pathlib import Path

from vrtspike.data.spike_reconstruction import short_window
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import read_json

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_the_window_of_the_baseline_is_the_best_that_was_measured():
    rows = read_json(BENCHMARKS / "results" / "spikes_alone.json")["rows"]
    best = max(rows, key=lambda row: row["psnr_y"])
    assert best["reconstruction"] == f"window of {short_window(88)} steps (TFP)"
    assert DeblurringSettings().TEST.SPIKES_ALONE == "tfp"
