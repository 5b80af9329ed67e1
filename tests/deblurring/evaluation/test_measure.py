"""Means over frames, sequences and scales, from numbers that can be added up by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch

from vrtspike.deblurring.evaluation.measure import (
    ClipMeter,
    overall_means,
    ranking_metric,
    require_size,
    select_metrics,
    sequence_means,
    spikes_means,
    worst_frames,
)
from vrtspike.deblurring.metrics.metric import MotionScore, TemporalMetric, needs_nothing
from vrtspike.deblurring.metrics.psnr import PSNR, PSNR_Y
from vrtspike.deblurring.metrics.ssim import SSIM
from vrtspike.deblurring.metrics.tof import TOF
from vrtspike.errors import ConfigError

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


def test_each_name_is_measured_by_its_own_metric_against_its_own_reference(tmp_path):
    rng = np.random.default_rng(4)
    blur, restored, sharp, spikes, gray = rng.integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    scores = select_metrics(["psnr", "psnr_y"], str(tmp_path), torch.device("cpu"))
    images = {"blur": blur, "restored": restored, "sharp": sharp, "spikes": spikes, "gray": gray}
    row = ClipMeter(scores).measure(images)

    def decibels(a: np.ndarray, b: np.ndarray) -> float:
        return float(10 * np.log10(255**2 / np.mean((a - b) ** 2)))

    y = np.array([65.481, 128.553, 24.966]) / 255
    for column, image, reference in (
        ("_blur", blur, sharp), ("", restored, sharp), ("_spikes", spikes, gray),
    ):  # fmt: skip
        a, b = image.astype(float), reference.astype(float)
        assert row[f"psnr{column}"] == pytest.approx(decibels(a, b))
        assert row[f"psnr_y{column}"] == pytest.approx(decibels(a @ y, b @ y))
    assert list(row) == [
        "psnr_blur", "psnr", "psnr_spikes", "psnr_y_blur", "psnr_y", "psnr_y_spikes",
    ]  # fmt: skip
    without = {kind: images[kind] for kind in ("blur", "restored", "sharp")}
    assert list(ClipMeter(scores).measure(without)) == [
        "psnr_blur", "psnr", "psnr_y_blur", "psnr_y",
    ]  # fmt: skip


CHANGE = TemporalMetric(
    "change", "change", "What the mean changes by", needs_nothing(
        MotionScore(
            lambda before, after: np.float32(after.mean() - before.mean()),
            lambda restored, sharp: float(restored - 10 * sharp),
        )
    ), larger_is_better=False,
)  # fmt: skip
"""A motion that can be computed by hand; the order of its arguments counts."""


def flat(**grays: int) -> dict[str, np.ndarray]:
    return {kind: np.full((4, 4, 3), gray, np.uint8) for kind, gray in grays.items()}


def test_a_temporal_metric_compares_what_happens_between_a_frame_and_the_one_before():
    meter = ClipMeter({CHANGE: CHANGE.load(None, None)})
    first = meter.measure(flat(blur=10, restored=20, sharp=30, spikes=40, gray=50))
    assert list(first) == ["change_blur", "change", "change_spikes"]
    assert all(np.isnan(figure) for figure in first.values())
    second = meter.measure(flat(blur=11, restored=22, sharp=33, spikes=44, gray=55))
    assert second == {"change_blur": 1 - 30, "change": 2 - 30, "change_spikes": 4 - 50}
    third = meter.measure(flat(blur=11, restored=22, sharp=34, spikes=44, gray=55))
    assert third == {"change_blur": -10, "change": -10, "change_spikes": 0}


def test_means_of_a_temporal_metric_are_over_the_frames_that_have_a_figure():
    nothing = float("nan")
    rows = [
        ("a", 0, nothing, nothing),
        ("a", 1, 4.0, 1.0),
        ("a", 2, 6.0, 2.0),
        ("b", 0, *[nothing] * 2),
    ]
    frames = pd.DataFrame(rows, columns=["sequence", "frame", "tof_blur", "tof"]).assign(scale=1.0)
    sequences = sequence_means(frames)
    assert sequences["frames"].tolist() == [3, 1]
    means = overall_means(sequences, 1.0, [TOF])
    assert means["tof"] == {"blurry": 5.0, "restored": 1.5, "gain": 3.5}
    alone = overall_means(sequence_means(frames[frames["sequence"] == "b"]), 1.0, [TOF])["tof"]
    assert (alone["blurry"], alone["restored"], alone["gain"]) == (None, None, None)
    assert "no sequence has two frames" in alone["reason"]


def test_means_of_the_spikes_alone_are_over_sequences_too():
    frames = FRAMES.assign(psnr_spikes=FRAMES["psnr"] - 3)
    means = spikes_means(sequence_means(frames), 1.0, [PSNR])
    assert means == {"psnr": pytest.approx(82 / 3 - 3)}
    endless = frames.replace({"psnr_spikes": {22.0: np.inf}})
    assert spikes_means(sequence_means(endless), 1.0, [PSNR]) == {"psnr": None}


def test_frames_that_a_metric_cannot_measure_are_refused_before():
    require_size([PSNR, SSIM, TOF], "a", (48, 48))
    with pytest.raises(ConfigError, match=r"tof, which measures frames of 48 x 48 .* 64 x 47"):
        require_size([PSNR, SSIM, TOF], "a_x0.5", (64, 47))
    with pytest.raises(ConfigError, match=r"ssim, which measures frames of 11 x 11"):
        require_size([PSNR, SSIM], "a", (10, 64))


def test_images_measured_at_once_have_the_same_figures(tmp_path):
    rng = np.random.default_rng(5)
    clip = rng.integers(0, 256, (2, 5, 48, 48, 3), dtype=np.uint8)
    scores = select_metrics(["ssim", "tof"], str(tmp_path), torch.device("cpu"))
    found = []
    with ThreadPoolExecutor(4) as pool:
        for meter in (ClipMeter(scores), ClipMeter(scores, pool.map)):
            kinds = ("blur", "restored", "spikes", "sharp", "gray")
            found.append([meter.measure(dict(zip(kinds, images, strict=True))) for images in clip])
    np.testing.assert_equal(*found)


def test_frames_are_ranked_by_psnr_or_else_by_the_first_metric():
    assert ranking_metric([SSIM, PSNR, TOF]) is PSNR
    assert ranking_metric([TOF, SSIM, PSNR_Y]) is TOF


def test_the_worst_frames_are_named_the_worst_first():
    worst = worst_frames(FRAMES, 1.0, [SSIM, PSNR])
    assert worst == [
        {"sequence": "c", "frame": "0", "psnr": 24.0},
        {"sequence": "c", "frame": "1", "psnr": 24.0},
        {"sequence": "b", "frame": "0", "psnr": 25.0},
        {"sequence": "a", "frame": "0", "psnr": 30.0},
        {"sequence": "a", "frame": "1", "psnr": 31.0},
    ]
    perfect = FRAMES.replace({"psnr": {25.0: np.inf, 24.0: np.nan}})
    assert [frame["psnr"] for frame in worst_frames(perfect, 1.0, [PSNR])] == [30, 31, 38]
    lower = FRAMES.rename(columns={"psnr": "tof"})
    assert [frame["tof"] for frame in worst_frames(lower, 1.0, [TOF])] == [38, 31, 30, 25, 24]
