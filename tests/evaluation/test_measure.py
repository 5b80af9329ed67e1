"""Means over frames, sequences and scales, from numbers that can be added up by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from vrtspike.deblurring.metrics.psnr import PSNR
from vrtspike.evaluation.measure import (
    measure_frame,
    overall_means,
    select_metrics,
    sequence_means,
)

FRAMES = pd.DataFrame(
    [
        *[("a", n, 1.0, 20.0, value) for n, value in enumerate((30.0, 31.0, 38.0))],
        ("b", 0, 1.0, 22.0, 25.0),
        *[("c", n, 1.0, 24.0 + n, 24.0) for n in range(2)],
        ("a", 0, 0.5, 10.0, 50.0),
    ],
    columns=["sequence", "frame", "scale", "psnr_blur", "psnr"],
)


def test_every_frame_counts_in_its_sequence_and_every_sequence_alike():
    sequences = sequence_means(FRAMES)
    rows = sequences[["sequence", "scale", "frames", "psnr_blur", "psnr"]].to_numpy().tolist()
    assert rows == [
        ["a", 1.0, 3, 20.0, 33.0],
        ["b", 1.0, 1, 22.0, 25.0],
        ["c", 1.0, 2, 24.5, 24.0],
        ["a", 0.5, 1, 10.0, 50.0],
    ]
    means = overall_means(sequences, 1.0, [PSNR])
    assert means["psnr"] == {
        "blurry": pytest.approx(66.5 / 3),
        "restored": pytest.approx(82 / 3),
        "gain": pytest.approx(15.5 / 3),
    }
    assert overall_means(sequences, 0.5, [PSNR])["psnr"]["gain"] == 40.0


def test_a_mean_that_is_not_finite_is_left_out_with_the_reason():
    perfect = FRAMES.replace({"psnr": {25.0: np.inf}})
    entry = overall_means(sequence_means(perfect), 1.0, [PSNR])["psnr"]
    assert entry["blurry"] == pytest.approx(66.5 / 3)
    assert (entry["restored"], entry["gain"]) == (None, None)
    assert "equal the sharp ones" in entry["reason"]


def test_each_name_is_measured_by_its_own_metric_against_the_sharp_frame(tmp_path):
    rng = np.random.default_rng(4)
    blur, restored, sharp = rng.integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
    metrics = select_metrics(["psnr", "psnr_y"], str(tmp_path), torch.device("cpu"))
    row = measure_frame(metrics, blur, restored, sharp)

    def decibels(a: np.ndarray, b: np.ndarray) -> float:
        return float(10 * np.log10(255**2 / np.mean((a - b) ** 2)))

    y = np.array([65.481, 128.553, 24.966]) / 255
    for column, image in (("_blur", blur), ("", restored)):
        a, b = image.astype(float), sharp.astype(float)
        assert row[f"psnr{column}"] == pytest.approx(decibels(a, b))
        assert row[f"psnr_y{column}"] == pytest.approx(decibels(a @ y, b @ y))
    assert list(row) == ["psnr_blur", "psnr", "psnr_y_blur", "psnr_y"]
