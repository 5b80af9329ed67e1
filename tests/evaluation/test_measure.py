"""Means over frames and sequences, from numbers that can be added up by hand."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest

from tests.deblurring.reference_metrics import decibels, luma_of
from vrtspike.analysis.evaluation_files import worst_frames
from vrtspike.evaluation.means import overall_means, ranking_metric, sequence_means
from vrtspike.evaluation.measure import ClipMeter
from vrtspike.metrics.metric import ImageMetric, needs_nothing
from vrtspike.metrics.psnr import PSNR, PSNR_Y
from vrtspike.metrics.ssim import SSIM
from vrtspike.metrics.tof import TOF

FRAMES = pd.DataFrame(
    [
        *[("a", n, 20.0, value) for n, value in enumerate((30.0, 31.0, 38.0))],
        ("b", 0, 22.0, 25.0),
        *[("c", n, 24.0 + n, 24.0) for n in range(2)],
    ],
    columns=["sequence", "frame", "psnr_blur", "psnr"],
).assign(protocol="own")


def test_sequences_have_equal_weights():
    sequences = sequence_means(FRAMES)
    rows = sequences[["sequence", "frames", "psnr_blur", "psnr"]].to_numpy().tolist()
    assert rows == [["a", 3, 20.0, 33.0], ["b", 1, 22.0, 25.0], ["c", 2, 24.5, 24.0]]
    assert overall_means(sequences, [PSNR])["psnr"] == {
        "blurry": pytest.approx(66.5 / 3),
        "restored": pytest.approx(82 / 3),
        "gain": pytest.approx(15.5 / 3),
        "restored_error": pytest.approx(np.std([33, 25, 24], ddof=1) / 3**0.5),
    }
    single = overall_means(sequences.iloc[1:2], [PSNR])["psnr"]
    assert (single["gain"], single["restored_error"]) == (3.0, None)


def test_frames_have_equal_weights():
    means = overall_means(sequence_means(FRAMES), [PSNR], "frames")["psnr"]
    assert means["restored"] == pytest.approx(np.mean([30, 31, 38, 25, 24, 24]))
    assert means["blurry"] == pytest.approx(np.mean([20, 20, 20, 22, 24, 25]))
    deviations = np.array([3 * (33 - 172 / 6), 25 - 172 / 6, 2 * (24 - 172 / 6)])
    assert means["restored_error"] == pytest.approx((1.5 * (deviations**2).sum()) ** 0.5 / 6)


def test_each_image_is_measured_against_its_reference():
    rng = np.random.default_rng(4)
    blur, restored, sharp, spikes, gray = rng.integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    scores = {metric: metric.load(None, None) for metric in (PSNR, PSNR_Y)}
    images = {"blurry": blur, "restored": restored, "sharp": sharp, "spikes": spikes, "gray": gray}
    with ClipMeter(scores) as meter:
        row = meter.measure(images)

    for column, image, reference in (
        ("_blur", blur, sharp), ("", restored, sharp), ("_spikes", spikes, gray),
    ):  # fmt: skip
        assert row[f"psnr{column}"] == pytest.approx(decibels(image, reference))
        expected = decibels(luma_of(image), luma_of(reference))
        assert row[f"psnr_y{column}"] == pytest.approx(expected)
    assert list(row) == [
        "psnr_blur", "psnr", "psnr_spikes", "psnr_y_blur", "psnr_y", "psnr_y_spikes",
    ]  # fmt: skip
    without = {kind: images[kind] for kind in ("blurry", "restored", "sharp")}
    with ClipMeter(scores) as meter:
        row = meter.measure(without)
    assert list(row) == ["psnr_blur", "psnr", "psnr_y_blur", "psnr_y"]


def change(before: np.ndarray, after: np.ndarray) -> float:
    return float(after.mean() - before.mean())


CHANGE = ImageMetric(
    "change",
    "change",
    "What the mean changes by",
    needs_nothing(lambda restored, sharp: change(*restored) - 10 * change(*sharp)),
    of_motion=True,
)
"""A motion that can be computed by hand; the order of its arguments counts."""


def flat(**grays: int) -> dict[str, np.ndarray]:
    return {kind: np.full((4, 4, 3), gray, np.uint8) for kind, gray in grays.items()}


def test_a_temporal_metric_compares_a_frame_with_the_one_before():
    with ClipMeter({CHANGE: CHANGE.load(None, None)}) as meter:
        first = meter.measure(flat(blurry=10, restored=20, sharp=30, spikes=40, gray=50))
        assert list(first) == ["change_blur", "change", "change_spikes"]
        assert all(np.isnan(figure) for figure in first.values())
        second = meter.measure(flat(blurry=11, restored=22, sharp=33, spikes=44, gray=55))
        assert second == {"change_blur": 1 - 30, "change": 2 - 30, "change_spikes": 4 - 50}
        third = meter.measure(flat(blurry=11, restored=22, sharp=34, spikes=44, gray=55))
        assert third == {"change_blur": -10, "change": -10, "change_spikes": 0}


def test_a_meter_ends_its_threads():
    threads = []

    def score(restored: np.ndarray, sharp: np.ndarray) -> float:
        threads.append(threading.current_thread())
        return 0.0

    with ClipMeter({PSNR: score}) as meter:
        meter.measure(flat(blurry=10, restored=20, sharp=30))
        assert all(thread.is_alive() for thread in threads)
    assert len(threads) == 2
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize(
    ("psnr", "spikes", "expected"),
    [
        # Frames without a figure do not count: a temporal metric has none of a first frame.
        ([np.nan, 1.0, 3.0], [4.0, 4.0, 4.0], {"restored": 2.0, "gain": 2.0, "spikes": 4.0}),
        ([1.0, 1.0, np.inf], [1.0, 2.0, 3.0], {"restored": None, "gain": None, "reason": "equal"}),
        ([1.0, 1.0, 1.0], [np.inf, 2.0, 3.0], {"restored": 1.0, "spikes": None}),
    ],
)
def test_means_are_over_finite_figures(psnr, spikes, expected):
    frames = pd.DataFrame({"frame": range(3), "psnr": psnr, "psnr_spikes": spikes})
    frames = frames.assign(protocol="own", sequence="a", psnr_blur=0.0)
    means = overall_means(sequence_means(frames), [PSNR])["psnr"]
    assert expected.pop("reason", "") in means.get("reason", "")
    assert {name: means[name] for name in expected} == expected


def test_a_metric_without_a_figure_has_a_reason():
    frames = pd.DataFrame([["own", "b", 0, np.nan, np.nan]])
    frames.columns = ["protocol", "sequence", "frame", "tof_blur", "tof"]
    means = overall_means(sequence_means(frames), [TOF])["tof"]
    assert (means["blurry"], means["restored"], means["gain"]) == (None, None, None)
    assert "no sequence has two frames" in means["reason"]


def test_frames_are_ranked_by_psnr_or_else_by_the_first_metric():
    assert ranking_metric([SSIM, PSNR, TOF]) is PSNR
    assert ranking_metric([TOF, SSIM, PSNR_Y]) is TOF


def test_the_worst_frames_are_named_the_worst_first():
    worst = worst_frames(FRAMES, ranking_metric([SSIM, PSNR]))
    assert worst == [
        {"sequence": "c", "frame": 0, "psnr": 24.0},
        {"sequence": "c", "frame": 1, "psnr": 24.0},
        {"sequence": "b", "frame": 0, "psnr": 25.0},
        {"sequence": "a", "frame": 0, "psnr": 30.0},
        {"sequence": "a", "frame": 1, "psnr": 31.0},
    ]
    perfect = FRAMES.replace({"psnr": {25.0: np.inf, 24.0: np.nan}})
    assert [frame["psnr"] for frame in worst_frames(perfect, PSNR)] == [30, 31, 38]
    lower = FRAMES.rename(columns={"psnr": "tof"})
    assert [frame["tof"] for frame in worst_frames(lower, TOF)] == [38, 31, 30, 25, 24]
