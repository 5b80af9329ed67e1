"""Evaluation of a run: metrics of every protocol, summary, examples, page and terminal."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from tests.deblurring.reference_metrics import decibels, luma_of, similarity
from tests.evaluation.evaluations import CPU, FRAMES, evaluate, raw_frames
from tests.helpers.small_run import SmallRun
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.video import read_video
from vrtspike.evaluation.comparison_pictures import GAP, LABEL_HEIGHT
from vrtspike.evaluation.protocols import PROTOCOLS
from vrtspike.evaluation.summary import summary_lines, write_deblurring_results
from vrtspike.io.files import write_json
from vrtspike.io.images import luma, read_gray, read_rgb
from vrtspike.metrics.registry import METRICS
from vrtspike.models import build_model
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.published import read_published
from vrtspike.system.errors import ConfigError, RunError

BIN_EDGES = (0, 21, 24, 28, 56)
"""First steps of the four bins of an exposure of 56 steps, and its end."""


def restored_by_hand(small_run: SmallRun, sequence: str, mean: float, std: float) -> np.ndarray:
    """The model's result for the raw files of a test sequence, (5, 48, 64, 3) uint8.

    Frames lie within one tile; windows of three frames share the third one, half each.
    """
    folder = small_run.raw / "test" / sequence
    frames = raw_frames(small_run, sequence, "blur")
    spikes = np.stack([read_spikes(folder / "spike" / f"{n}.dat", 24, 32) for n in FRAMES])
    gray = np.stack([luma(frame) / 255 for frame in frames])
    gray = gray.reshape(5, 24, 2, 32, 2).mean(axis=(2, 4), dtype=np.float64)
    whole = spikes.mean(axis=1)
    gain = (gray * whole).sum() / (whole**2).sum()
    rate = np.stack([spikes[:, a:b].mean(axis=1) for a, b in pairwise(BIN_EDGES)], axis=1)
    voxels = ((gain * rate - mean) / std).repeat(2, axis=2).repeat(2, axis=3)
    blur = torch.from_numpy(frames.transpose(0, 3, 1, 2) / 255).float()
    model = build_model(small_run.settings).eval()
    model.load_state_dict(load_file(small_run.train / "weights.safetensors"))
    with torch.no_grad():
        first, last = (
            model(blur[None, a : a + 3], torch.from_numpy(voxels[None, a : a + 3]).float())[0]
            for a in (0, 2)
        )
    output = torch.cat([first[:2], (first[2:] + last[:1]) / 2, last[1:]]).clamp(0, 1)
    return (255 * output).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


@pytest.fixture(scope="module")
def restored(small_run: SmallRun) -> dict[str, np.ndarray]:
    """The model's results for the test sequences with the statistics of the data set."""
    statistics = load_dataset(small_run.dataset).statistics
    return {
        name: restored_by_hand(small_run, name, statistics.mean, statistics.std) for name in "bc"
    }


@pytest.fixture(scope="module")
def evaluated(small_run, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("evaluated")
    calls: list[tuple[int, int]] = []
    evaluate(small_run, output, "TEST.SAVE_VIDEO=true", progress=lambda *done: calls.append(done))
    assert calls == [(n, 10) for n in range(11)]
    assert len(list(read_video(output / "videos/b.mp4"))) == 5
    return output


def frames_of(output: Path) -> pd.DataFrame:
    return pd.read_csv(output / "frames.csv", dtype={"frame": str})


def test_metrics_are_those_of_the_models_output_against_the_sharp_files(
    small_run, evaluated, restored
):
    frames = frames_of(evaluated)
    assert frames.columns.tolist() == [
        "protocol", "sequence", "frame", "psnr_blur", "psnr", "psnr_spikes",
        "ssim_blur", "ssim", "ssim_spikes",
    ]  # fmt: skip
    rows = frames[["sequence", "frame"]].to_numpy().tolist()
    assert rows == [[sequence, name] for sequence in "bc" for name in FRAMES]
    for sequence in "bc":
        rows = frames[frames["sequence"] == sequence]
        pairs = list(zip(restored[sequence], raw_frames(small_run, sequence, "sharp"), strict=True))
        psnr, ssim = ([score(*pair) for pair in pairs] for score in (decibels, similarity))
        assert rows["psnr"].tolist() == pytest.approx(psnr, abs=1e-3)
        assert rows["ssim"].tolist() == pytest.approx(ssim, abs=1e-4)


def test_other_statistics_and_luma(small_run, restored, tmp_path):
    """The run's statistics count, not those of the data; psnr_y is of Y."""
    train = shutil.copytree(small_run.train, tmp_path / "train")
    write_json(train / "statistics.json", {"statistics": {"mean": 0.1, "std": 0.05, "count": 0}})
    summary = evaluate(replace(small_run, train=train), tmp_path, "TEST.METRICS=[psnr_y]")
    other = restored_by_hand(small_run, "b", 0.1, 0.05)
    assert np.abs(other.astype(int) - restored["b"]).mean() > 1
    blur, sharp = (raw_frames(small_run, "b", kind) for kind in ("blur", "sharp"))
    rows = frames_of(tmp_path).query("sequence == 'b'")
    for suffix, images in (("_blur", blur), ("", other)):
        values = [decibels(*map(luma_of, pair)) for pair in zip(images, sharp, strict=True)]
        assert rows[f"psnr_y{suffix}"].tolist() == pytest.approx(values, abs=1e-3)
    # The file of weights holds constants as well.
    model = build_model(small_run.settings)
    learned = {name for name, _ in model.named_parameters()}
    stored = load_file(small_run.train / "weights.safetensors")
    assert summary["parameters"] == sum(v.numel() for k, v in stored.items() if k in learned)


def test_the_spikes_alone_are_compared_in_grey(small_run, evaluated):
    """A short window about the sharp instant, enlarged; the gain is that of the blurry frames."""
    summary = json.loads((evaluated / "summary.json").read_text())
    folder = small_run.raw / "test" / "b"
    spikes = np.stack([read_spikes(folder / "spike" / f"{n}.dat", 24, 32) for n in FRAMES])
    blur, sharp = (raw_frames(small_run, "b", kind) for kind in ("blur", "sharp"))
    gray = np.stack([luma(frame) for frame in blur]).reshape(5, 24, 2, 32, 2).mean((2, 4))
    whole = spikes.mean(axis=1)
    gain = (gray * whole).sum() / (whole**2).sum()
    window = (gain * spikes[:, 24 - 10 : 24 + 10].mean(axis=1)).astype(np.float32)
    expected = []
    for image, truth in zip(window, sharp, strict=True):
        shown = cv2.resize(image, (64, 48), interpolation=cv2.INTER_CUBIC)
        gray = np.rint(truth @ np.array([0.299, 0.587, 0.114]))
        expected.append(decibels(np.rint(shown).clip(0, 255), gray))
    rows = frames_of(evaluated).query("sequence == 'b'")
    assert rows["psnr_spikes"].tolist() == pytest.approx(expected, abs=0.02)
    means = pd.read_csv(evaluated / "sequences.csv").mean(numeric_only=True)
    assert summary["spikes_alone"] == {
        name: pytest.approx(means[f"{name}_spikes"], abs=1e-5) for name in ("psnr", "ssim")
    }
    assert "TFP" in summary["spikes_alone_note"]
    assert summary["spikes_alone_note"] in (evaluated / "metrics.html").read_text()


def test_examples_hold_the_frames_themselves(small_run, evaluated, restored):
    blur, sharp = (raw_frames(small_run, "b", kind) for kind in ("blur", "sharp"))
    for example in (evaluated / "examples" / "b").iterdir():
        number = FRAMES.index(example.name)
        np.testing.assert_array_equal(read_rgb(example / "blurry.png"), blur[number])
        np.testing.assert_array_equal(read_rgb(example / "sharp.png"), sharp[number])
        shown = read_rgb(example / "restored.png").astype(int)
        assert np.abs(shown - restored["b"][number]).max() <= 1
        picture = read_gray(example / "spikes.png")
        area = luma(sharp[number]).reshape(24, 2, 32, 2).mean(axis=(1, 3))
        assert picture.shape == (24, 32)
        assert np.abs(picture - area).mean() < 15
    index = json.loads((evaluated / "examples/examples.json").read_text())["examples"]
    worst = frames_of(evaluated).sort_values("psnr").iloc[0]
    middle = {(entry["sequence"], entry["frame"]) for entry in index if "middle" in entry["chosen"]}
    assert (index[0]["sequence"], index[0]["frame"]) == (worst["sequence"], worst["frame"])
    assert middle == {("b", "000003"), ("c", "000003")}


def test_the_terminal_shows_means_and_the_worst_frames(evaluated):
    summary = json.loads((evaluated / "summary.json").read_text())
    worst = frames_of(evaluated).sort_values("psnr").head(5)[["sequence", "frame", "psnr"]]
    assert summary["worst"] == [
        {"sequence": s, "frame": f, "psnr": pytest.approx(v, abs=1e-5)}
        for s, f, v in worst.to_numpy()
    ]
    lines = summary_lines(summary)
    assert lines[:2] == ["small: 10 frames, 2 sequences", "protocol own"]
    header = " ".join(lines[2].split())
    assert header == "metric blurry restored spikes alone (grey) standard error"
    means, alone = summary["metrics"]["psnr"], summary["spikes_alone"]["psnr"]
    values = (means["blurry"], means["restored"], alone, means["restored_error"])
    cells = " dB ".join(f"{value:.2f}" for value in values)
    assert lines[3].split() == f"psnr {cells} dB".split()
    sequence, frame, psnr = worst.iloc[0]
    named = f"Worst restored frames by psnr: {sequence}/{frame} ({psnr:.2f} dB)"
    assert lines[-1].startswith(named)
    assert named in (evaluated / "metrics.html").read_text()


def test_without_a_baseline_and_with_a_metric_of_motion(small_run, tmp_path):
    summary = evaluate(small_run, tmp_path, "TEST.METRICS=[tof]", "TEST.SPIKES_ALONE=null")
    frames = frames_of(tmp_path)
    assert frames.columns.tolist() == ["protocol", "sequence", "frame", "tof_blur", "tof"]
    assert frames["tof"].isna().tolist() == ([True] + 4 * [False]) * 2
    means = frames.groupby("sequence")[["tof_blur", "tof"]].mean().mean()
    assert summary["metrics"]["tof"]["gain"] == pytest.approx(means["tof_blur"] - means["tof"])
    assert summary["spikes_alone"] is None
    assert "TEST.SPIKES_ALONE" in summary["spikes_alone_note"]
    assert {frame["sequence"] for frame in summary["worst"]} <= {"b", "c"}
    index = json.loads((tmp_path / "examples" / "examples.json").read_text())
    files = [entry["files"] for entry in index["examples"]]
    assert files
    assert not any("spikes" in names for names in files)
    assert "spikes alone" not in (tmp_path / "metrics.html").read_text()


@pytest.mark.parametrize(
    ("overrides", "bins", "error", "message"),
    [
        (
            *("METRICS=[psnr, lpips]", 4, RunError),
            r"alexnet-owt-7be5be79\.pth: no such file.* --cores 1 weights",
        ),
        ("SAVE_VIDEO=false", 8, ConfigError, r"NUM_VOXEL_BINS 8, the settings say 4"),
        (
            *("PROTOCOL=[own, spkdeblurnet]", 4, ConfigError),
            r"spkdeblurnet, whose .* 'blur_gamma'; .* DATA.BLUR_DIR",
        ),
        (
            *("PROTOCOL=vrt METRICS=[tof]", 4, ConfigError),
            r"vrt, which defines psnr and ssim; .* tof",
        ),
    ],
    ids=["weights", "bins", "blur", "metrics"],
)
def test_unmeasurable_metrics_are_refused_before_anything_is_restored(
    small_run, tmp_path, overrides, bins, error, message
):
    dataset = small_run.dataset.with_name("other.json")
    dataset.write_text(json.dumps(json.loads(small_run.dataset.read_text()) | {"bins": bins}))
    keys = [f"TEST.{override}" for override in re.split(r" (?=[A-Z])", overrides)]
    with pytest.raises(error, match=f"(?s){message}"):
        evaluate(small_run, tmp_path, *keys, dataset=dataset)
    assert list(tmp_path.iterdir()) == []


def picture_columns(path: Path, count: int) -> list[np.ndarray]:
    """The frames in a comparison of 64 pixels wide ones, which are shown seven times enlarged."""
    picture = read_rgb(path)
    left = [column * (7 * 64 + GAP) for column in range(count)]
    assert picture.shape[1] == left[-1] + 7 * 64
    rows = slice(LABEL_HEIGHT, LABEL_HEIGHT + 7 * 48, 7)
    return [picture[rows, start : start + 7 * 64 : 7] for start in left]


@pytest.mark.parametrize(("validation", "is_warned"), [("held_out", False), ("test", True)])
def test_the_summary_has_the_means_and_notes_of_each_protocol(
    small_run, tmp_path, validation, is_warned
):
    run = read_published(small_run.train)
    data = run.settings.DATA.model_copy(update={"VALIDATION": validation})
    settings = run.settings.model_copy(update={"DATA": data})
    run = replace(run, settings=settings, dataset_digest="another")
    columns = ["protocol", "sequence", "frame", "psnr_blur", "psnr"]
    values = [("b", "1", 30.0), ("b", "2", 30.0), ("b", "3", 30.0), ("c", "1", 34.0)]
    rows = [(name, s, frame, 20.0, psnr) for name in ("own", "vrt") for s, frame, psnr in values]
    measured = {PROTOCOLS[name]: [METRICS["psnr"]] for name in ("own", "vrt")}
    dataset, frames = load_dataset(small_run.dataset), pd.DataFrame(rows, columns=columns)
    job = EvaluationJob(small_run.train, run, small_run.dataset, tmp_path, CPU)
    summary = write_deblurring_results(job, dataset, frames, measured, {})
    assert summary["metrics"]["psnr"]["restored"] == 32  # over sequences
    assert summary["other_protocols"]["vrt"]["metrics"]["psnr"]["restored"] == 31  # over frames
    assert summary["warnings"][0].startswith("of other data than it was trained on: ")
    assert ("chosen on the test split" in " ".join(summary["warnings"])) is is_warned
    assert ("chosen on the test split" in (tmp_path / "metrics.html").read_text()) is is_warned


def test_the_summary_names_the_measured_data(small_run, evaluated):
    summary = json.loads((evaluated / "summary.json").read_text())
    manifest = json.loads(small_run.dataset.read_text())
    expected = {
        "dataset": "toy", "dataset_digest": manifest["digest"], "split": "test",
        "device": "cpu", "preset": "small", "fingerprint": "0123456789ab", "blur_dir": "blur",
        "sequences": 2, "frames": 10, "use_spike": True, "bins": 4, "warnings": [],
    }  # fmt: skip
    assert {key: summary[key] for key in expected} == expected
    assert summary["model_seconds_per_frame"] > 0
    assert {key: summary["tile"][key] for key in ("SIZE", "OVERLAP")} == {"SIZE": 64, "OVERLAP": 8}
    assert set(summary["definitions"]) == set(summary["metrics"]) == {"psnr", "ssim"}
    page = (evaluated / "metrics.html").read_text()
    assert "Protocol own, mean over sequences" in page
    assert summary["definitions"]["ssim"] in page


def table_rows(page: str) -> list[list[str]]:
    rows = re.findall(r"<tr.*?</tr>", page)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_the_page_shows_each_sequence_and_the_mean(evaluated):
    names = ["psnr_blur", "psnr", "psnr_spikes", "ssim_blur", "ssim", "ssim_spikes"]
    means = frames_of(evaluated).groupby("sequence")[names].mean()
    overall, sequences = ["metric", "blurry", "restored"], ["sequence", "frames", *names]
    head, psnr, ssim, other, *rows = table_rows((evaluated / "metrics.html").read_text())
    assert head == [*overall, "spikes alone (grey)", "standard error", "definition"]
    assert other == sequences
    assert [row[:2] for row in rows] == [["b", "5"], ["c", "5"]]
    errors = means[["psnr", "ssim"]].sem()
    shown = [cell.removesuffix(" dB") for cell in psnr[1:5] + ssim[1:5]]
    expected = [*means.mean()[:3], errors["psnr"], *means.mean()[3:], errors["ssim"]]
    for cells, values in ((shown, expected), *((r[2:], means.loc[r[0]]) for r in rows)):
        half = len(cells) // 2
        assert [len(cell.split(".")[1]) for cell in cells] == [2] * half + [4] * half
        for cell, value, step in zip(cells, values, [0.01] * half + [1e-4] * half, strict=True):
            assert float(cell) == pytest.approx(value, abs=0.51 * step)


def test_a_picture_of_the_middle_frame_of_each_sequence(small_run, evaluated, restored):
    pictures = evaluated / "pictures"
    assert sorted(path.name for path in pictures.iterdir()) == [
        "b_000003.png",
        "c_000003.png",
    ]
    for sequence in "bc":
        blur, shown, sharp = picture_columns(pictures / f"{sequence}_000003.png", 3)
        np.testing.assert_array_equal(blur, raw_frames(small_run, sequence, "blur")[2])
        np.testing.assert_array_equal(sharp, raw_frames(small_run, sequence, "sharp")[2])
        expected = restored[sequence][2]
        assert np.abs(shown.astype(int) - expected).max() <= 1
        assert np.abs(blur.astype(int) - expected).mean() > 1


def test_repeating_gives_the_same_results_and_no_leftovers(small_run, evaluated, tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "of_an_older_run.png").touch()
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "of_an_older_run.mp4").touch()
    evaluate(small_run, tmp_path)
    again, first = (frames_of(folder)["psnr"] for folder in (tmp_path, evaluated))
    np.testing.assert_allclose(again, first, atol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "examples", "frames.csv", "metrics.html", "pictures", "sequences.csv", "summary.json",
    ]  # fmt: skip
    assert len(list((tmp_path / "pictures").iterdir())) == 2
