from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
import torch

from vrtspike.data.raw.images import read_rgb
from vrtspike.deblurring.metrics.metric import Metric, needs_nothing
from vrtspike.deblurring.metrics.psnr import psnr
from vrtspike.deblurring.metrics.ssim import ssim
from vrtspike.deblurring.metrics.table import METRICS
from vrtspike.errors import ConfigError, DataError
from vrtspike.evaluation.evaluate import evaluate_run
from vrtspike.runs.published import read_published

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def evaluated(small_run, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("evaluated")
    run = read_published(small_run.train).with_overrides(
        ["TEST.SAVE_VIDEO=true", "TEST.EVAL_SCALES=[1.0, 0.5]"]
    )
    seen: list[tuple[int, int]] = []
    evaluate_run(
        small_run.train / "weights.safetensors", run, small_run.dataset, output, CPU,
        lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == [(n, 20) for n in range(1, 21)]
    return output


def test_a_row_for_every_frame_with_the_blurry_input_beside(evaluated, small_run):
    frames = pd.read_csv(evaluated / "frames.csv", dtype={"frame": str})
    assert frames.columns.tolist() == [
        "sequence", "frame", "scale", "psnr_blur", "psnr", "ssim_blur", "ssim",
    ]  # fmt: skip
    assert len(frames) == 2 * 2 * 5
    whole = frames[frames["scale"] == 1]
    for row in whole.itertuples():
        folder = small_run.raw / "test" / row.sequence
        pair = [read_rgb(folder / kind / f"{row.frame}.png") for kind in ("blur", "sharp")]
        assert row.psnr_blur == pytest.approx(psnr(*pair), abs=1e-5)
        assert row.ssim_blur == pytest.approx(ssim(*pair), abs=1e-5)
        assert row.psnr != row.psnr_blur


def test_means_over_frames_and_then_over_sequences(evaluated):
    frames = pd.read_csv(evaluated / "frames.csv")
    sequences = pd.read_csv(evaluated / "sequences.csv")
    summary = json.loads((evaluated / "summary.json").read_text())
    assert sequences["frames"].tolist() == [5] * 4
    first = frames[(frames["sequence"] == "b") & (frames["scale"] == 1)]
    row = sequences[(sequences["sequence"] == "b") & (sequences["scale"] == 1)].iloc[0]
    assert row["psnr"] == pytest.approx(first["psnr"].mean(), abs=1e-5)
    for scale, means in ((1.0, summary["metrics"]), (0.5, summary["other_scales"]["0.5"])):
        of_scale = sequences[sequences["scale"] == scale]
        assert means["psnr"]["restored"] == pytest.approx(of_scale["psnr"].mean(), abs=1e-5)
        assert means["ssim"]["blurry"] == pytest.approx(of_scale["ssim_blur"].mean(), abs=1e-5)
        assert means["psnr"]["gain"] == pytest.approx(
            means["psnr"]["restored"] - means["psnr"]["blurry"]
        )


def test_the_summary_says_what_was_measured(evaluated):
    summary = json.loads((evaluated / "summary.json").read_text())
    assert summary["preset"] == "small"
    assert summary["fingerprint"] == "0123456789ab"
    assert summary["blur_dir"] == "blur"
    assert (summary["sequences"], summary["frames"]) == (2, 10)
    assert set(summary["definitions"]) == set(summary["metrics"]) == {"psnr", "ssim"}
    page = (evaluated / "table.html").read_text()
    assert "mean over sequences" in page
    assert summary["definitions"]["ssim"] in page


def test_a_metric_without_its_weights_is_an_error_before_anything_is_restored(small_run, tmp_path):
    run = read_published(small_run.train).with_overrides(["TEST.METRICS=[psnr, lpips]"])
    with pytest.raises(DataError) as caught:
        evaluate_run(
            small_run.train / "weights.safetensors", run, small_run.dataset, tmp_path, CPU,
            lambda done, total: None,
        )  # fmt: skip
    for words in (
        "TEST.METRICS names lpips",
        "no-such-folder/alexnet-owt-7be5be79.pth: no such file",
        "snakemake --cores 1 weights",
    ):
        assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def absolute_error(restored: np.ndarray, sharp: np.ndarray) -> float:
    return float(np.abs(restored.astype(float) - sharp).mean())


def test_a_metric_of_which_lower_is_better(small_run, tmp_path, monkeypatch):
    error = Metric(
        "error", "error", "Mean absolute error", needs_nothing(absolute_error), decimals=3,
        larger_is_better=False,
    )  # fmt: skip
    monkeypatch.setitem(METRICS, "error", error)
    run = read_published(small_run.train)
    test = run.settings.TEST.model_copy(update={"METRICS": ("psnr", "error")})
    settings = run.settings.model_copy(update={"TEST": test})
    run = replace(run, identity=replace(run.identity, settings=settings))
    summary = evaluate_run(
        small_run.train / "weights.safetensors", run, small_run.dataset, tmp_path, CPU,
        lambda done, total: None,
    )  # fmt: skip
    frames = pd.read_csv(tmp_path / "frames.csv", dtype={"frame": str})
    row = frames.iloc[0]
    folder = small_run.raw / "test" / row["sequence"]
    pair = [read_rgb(folder / kind / f"{row['frame']}.png") for kind in ("blur", "sharp")]
    assert row["error_blur"] == pytest.approx(absolute_error(*pair), abs=1e-5)
    means = summary["metrics"]["error"]
    assert means["gain"] == means["blurry"] - means["restored"]
    # The untrained model of this test makes the frames worse.
    assert summary["metrics"]["psnr"]["gain"] < 0
    assert means["gain"] < 0
    page = (tmp_path / "table.html").read_text()
    assert "error: Mean absolute error; lower is better." in page
    assert f"<td>{means['restored']:.3f}</td>" in page


def test_a_picture_and_a_video_for_each_sequence(evaluated):
    pictures = sorted(path.name for path in (evaluated / "pictures").iterdir())
    assert len(pictures) == 4
    assert all(read_rgb(evaluated / "pictures" / name).std() > 10 for name in pictures)
    assert sorted(path.stem for path in (evaluated / "videos").iterdir()) == [
        "b", "b_x0.5", "c", "c_x0.5",
    ]  # fmt: skip
    video = cv2.VideoCapture(str(evaluated / "videos" / "b.mp4"))
    assert int(video.get(cv2.CAP_PROP_FRAME_COUNT)) == 5
    assert int(video.get(cv2.CAP_PROP_FRAME_WIDTH)) == 3 * 64


def test_repeating_gives_the_same_figures_and_no_leftovers(small_run, evaluated, tmp_path):
    run = read_published(small_run.train)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "of_an_older_run.png").touch()
    evaluate_run(
        small_run.train / "weights.safetensors", run, small_run.dataset, tmp_path, CPU,
        lambda done, total: None,
    )  # fmt: skip
    again, first = (pd.read_csv(folder / "frames.csv") for folder in (tmp_path, evaluated))
    np.testing.assert_allclose(again["psnr"], first.loc[first["scale"] == 1, "psnr"], atol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "frames.csv", "pictures", "sequences.csv", "summary.json", "table.html",
    ]  # fmt: skip
    assert len(list((tmp_path / "pictures").iterdir())) == 2


def test_other_bins_and_a_missing_split_are_refused(small_run, tmp_path):
    run = read_published(small_run.train)
    weights = small_run.train / "weights.safetensors"
    manifest = json.loads(small_run.dataset.read_text())
    other = small_run.dataset.with_name("other.json")
    other.write_text(json.dumps(manifest | {"bins": 8}))
    with pytest.raises(ConfigError, match=r"built with 8 bins, but DATA\.K of the run is 4"):
        evaluate_run(weights, run, other, tmp_path, CPU, lambda done, total: None)
    del manifest["splits"]["test"]
    other.write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="no split 'test'"):
        evaluate_run(weights, run, other, tmp_path, CPU, lambda done, total: None)
    assert list(tmp_path.iterdir()) == []


def test_a_model_with_spikes_is_refused_on_a_data_set_without(small_run, tmp_path):
    manifest = json.loads(small_run.dataset.read_text()) | {"statistics": None}
    other = small_run.dataset.with_name("without_spikes.json")
    other.write_text(json.dumps(manifest))
    run = read_published(small_run.train)
    weights = small_run.train / "weights.safetensors"
    with pytest.raises(ConfigError, match=r"without_spikes\.json: no sequence .* has spike files"):
        evaluate_run(weights, run, other, tmp_path, CPU, lambda done, total: None)
    assert list(tmp_path.iterdir()) == []
