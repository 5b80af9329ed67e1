"""What ``benchmarks/spikes_alone.py`` shows; the baseline is the one that it speaks for."""

from __future__ import annotations

from pathlib import Path

import spikes_alone as module
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.spike_images import short_window
from vrtspike.io.files import read_json

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_the_best_of_each_column_is_set_off():
    rows = [
        {"reconstruction": "short", "psnr_y": 27.0, "tof": 0.5},
        {"reconstruction": "long", "psnr_y": 29.0, "tof": 2.0},
    ]
    lines = module.table({"metrics": ["psnr_y", "tof"], "figures": rows}).splitlines()
    assert lines == [
        "| reconstruction | PSNR of Y | tOF |",
        "| --- | --- | --- |",
        "| short | 27.00 dB | **0.500 px** |",
        "| long | **29.00 dB** | 2.000 px |",
    ]


def test_the_window_of_the_baseline_is_the_best_that_was_measured():
    rows = read_json(BENCHMARKS / "results" / "spikes_alone.json")["figures"]
    best = max(rows, key=lambda row: row["psnr_y"])
    assert best["reconstruction"] == f"window of {short_window(88)} steps (TFP)"
    assert Settings().TEST.SPIKES_ALONE == "tfp"
