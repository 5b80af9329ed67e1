"""Means over frames and sequences, from numbers that can be added up by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.evaluation.evaluations import FRAME_METRICS
from vrtspike.evaluation.means import overall_means, ranking_metric, sequence_means
from vrtspike.metrics.psnr import PSNR, PSNR_Y
from vrtspike.metrics.ssim import SSIM
from vrtspike.metrics.tof import TOF


def test_sequences_have_equal_weights():
    sequences = sequence_means(FRAME_METRICS)
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
    means = overall_means(sequence_means(FRAME_METRICS), [PSNR], "frames")["psnr"]
    assert means["restored"] == pytest.approx(np.mean([30, 31, 38, 25, 24, 24]))
    assert means["blurry"] == pytest.approx(np.mean([20, 20, 20, 22, 24, 25]))
    deviations = np.array([3 * (33 - 172 / 6), 25 - 172 / 6, 2 * (24 - 172 / 6)])
    assert means["restored_error"] == pytest.approx((1.5 * (deviations**2).sum()) ** 0.5 / 6)


@pytest.mark.parametrize(
    ("psnr", "spikes", "expected"),
    [
        # Frames without a value do not count: a temporal metric has none of a first frame.
        ([np.nan, 1.0, 3.0], [4.0, 4.0, 4.0], {"restored": 2.0, "gain": 2.0, "spikes": 4.0}),
        ([1.0, 1.0, np.inf], [1.0, 2.0, 3.0], {"restored": None, "gain": None, "reason": "equal"}),
        ([1.0, 1.0, 1.0], [np.inf, 2.0, 3.0], {"restored": 1.0, "spikes": None}),
    ],
)
def test_means_are_over_finite_values(psnr, spikes, expected):
    frames = pd.DataFrame({"frame": range(3), "psnr": psnr, "psnr_spikes": spikes})
    frames = frames.assign(protocol="own", sequence="a", psnr_blur=0.0)
    means = overall_means(sequence_means(frames), [PSNR])["psnr"]
    assert expected.pop("reason", "") in means.get("reason", "")
    assert {name: means[name] for name in expected} == expected


def test_a_metric_without_a_value_has_a_reason():
    frames = pd.DataFrame([["own", "b", 0, np.nan, np.nan]])
    frames.columns = ["protocol", "sequence", "frame", "tof_blur", "tof"]
    means = overall_means(sequence_means(frames), [TOF])["tof"]
    assert (means["blurry"], means["restored"], means["gain"]) == (None, None, None)
    assert "no sequence has two frames" in means["reason"]


def test_frames_are_ranked_by_psnr_or_else_by_the_first_metric():
    assert ranking_metric([SSIM, PSNR, TOF]) is PSNR
    assert ranking_metric([TOF, SSIM, PSNR_Y]) is TOF
