from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from tests.deblurring.evaluation.conftest import SmallRun
from tests.deblurring.reference_metrics import decibels, luma_of, similarity
from vrtspike.deblurring.data.clips.dataset import load_dataset
from vrtspike.deblurring.data.raw.spikes import read_spikes
from vrtspike.deblurring.evaluation.evaluate import evaluate_run
from vrtspike.deblurring.evaluation.protocols import PROTOCOLS
from vrtspike.deblurring.evaluation.summary import summary_lines, write_results
from vrtspike.deblurring.evaluation.tiling import Progress
from vrtspike.deblurring.metrics.registry import METRICS
from vrtspike.deblurring.models import build_model
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.visuals import GAP, LABEL_HEIGHT
from vrtspike.errors import ConfigError, DataError
from vrtspike.io.images import luma, read_gray, read_rgb
from vrtspike.runs.published import PublishedRun, read_published

CPU = torch.device("cpu")
FRAMES = [f"{number:06d}" for number in range(1, 6)]
BIN_EDGES = (0, 21, 24, 28, 56)
"""First steps of the four bins of an exposure of 56 steps, and its end."""


def raw_frames(small_run: SmallRun, sequence: str, kind: str) -> np.ndarray:
    """The frames of a test sequence as their files hold them, (5, 48, 64, 3)."""
    folder = small_run.raw / "test" / sequence / kind
    return np.stack([read_rgb(folder / f"{name}.png") for name in FRAMES])


def restored_by_hand(small_run: SmallRun, sequence: str, mean: float, std: float) -> np.ndarray:
    """What the model makes of the raw files of a test sequence, (5, 48, 64, 3) uint8.

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
    """What the model makes of the test sequences with the statistics of the data set."""
    statistics = load_dataset(small_run.dataset).statistics
    return {
        name: restored_by_hand(small_run, name, statistics.mean, statistics.std) for name in "bc"
    }


def evaluate(
    small_run: SmallRun,
    output: Path,
    *overrides: str,
    dataset: Path | None = None,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    run = read_published(small_run.train).with_overrides(overrides)
    weights = small_run.train / "weights.safetensors"
    data = dataset or small_run.dataset
    return evaluate_run(weights, run, data, output, CPU, progress)


@pytest.fixture(scope="module")
def evaluated(small_run, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("evaluated")
    seen: list[tuple[int, int]] = []
    started = time.monotonic()
    summary = evaluate(
        small_run, output, "TEST.SAVE_VIDEO=true", "TEST.EVAL_SCALES=[1.0, 0.5]",
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == [(n, 20) for n in range(21)]
    assert 0 < 20 * summary["seconds_per_frame"] <= time.monotonic() - started
    return output


def test_a_row_for_every_frame_at_every_scale(evaluated):
    frames = pd.read_csv(evaluated / "frames.csv", dtype={"frame": str})
    assert frames.columns.tolist() == [
        "protocol", "sequence", "frame", "scale", "psnr_blur", "psnr", "psnr_spikes",
        "ssim_blur", "ssim", "ssim_spikes",
    ]  # fmt: skip
    rows = frames[["scale", "sequence", "frame"]].to_numpy().tolist()
    assert rows == [[scale, s, name] for scale in (1.0, 0.5) for s in "bc" for name in FRAMES]


def test_figures_are_those_of_the_models_output_against_the_sharp_files(
    small_run, evaluated, restored
):
    frames = pd.read_csv(evaluated / "frames.csv", dtype={"frame": str})
    for sequence in "bc":
        rows = frames[(frames["scale"] == 1) & (frames["sequence"] == sequence)]
        sharp = raw_frames(small_run, sequence, "sharp")
        assert rows["psnr"].tolist() == pytest.approx(
            [decibels(*pair) for pair in zip(restored[sequence], sharp, strict=True)], abs=1e-3
        )
        assert rows["ssim"].tolist() == pytest.approx(
            [similarity(*pair) for pair in zip(restored[sequence], sharp, strict=True)], abs=1e-4
        )


def test_other_statistics_and_luma(small_run, restored, tmp_path):
    """DATA.NORM replaces the data set's statistics; psnr_y is of Y."""
    tree = small_run.settings.model_dump(mode="json")
    tree["DATA"]["NORM"] = {"MEAN": 0.1, "STD": 0.05}
    tree["TEST"]["METRICS"] = ["psnr_y"]
    run = read_published(small_run.train)
    run = replace(run, settings=Settings.model_validate(tree))
    summary = evaluate_run(
        small_run.train / "weights.safetensors", run, small_run.dataset, tmp_path, CPU,
        lambda done, total: None,
    )  # fmt: skip
    other = restored_by_hand(small_run, "b", 0.1, 0.05)
    assert np.abs(other.astype(int) - restored["b"]).mean() > 1
    blur, sharp = (raw_frames(small_run, "b", kind) for kind in ("blur", "sharp"))
    frames = pd.read_csv(tmp_path / "frames.csv", dtype={"frame": str})
    rows = frames[frames["sequence"] == "b"]

    for suffix, images in (("_blur", blur), ("", other)):
        values = [decibels(*map(luma_of, pair)) for pair in zip(images, sharp, strict=True)]
        assert rows[f"psnr_y{suffix}"].tolist() == pytest.approx(values, abs=1e-3)
    assert summary["use_spike"] is True
    assert summary["bins"] == 4
    # The file of weights holds constants as well.
    model = build_model(small_run.settings)
    learned = {name for name, _ in model.named_parameters()}
    stored = load_file(small_run.train / "weights.safetensors")
    assert summary["parameters"] == sum(v.numel() for k, v in stored.items() if k in learned)


def gray_of(image: np.ndarray) -> np.ndarray:
    """Grey values of a frame, three times."""
    return np.repeat(np.rint(image @ np.array([0.299, 0.587, 0.114]))[..., None], 3, axis=-1)


def test_the_spikes_alone_are_compared_in_grey_at_every_scale(small_run, evaluated):
    """A short window about the sharp instant, enlarged; the gain is that of the blurry frames."""
    frames = pd.read_csv(evaluated / "frames.csv", dtype={"frame": str})
    summary = json.loads((evaluated / "summary.json").read_text())
    folder = small_run.raw / "test" / "b"
    spikes = np.stack([read_spikes(folder / "spike" / f"{n}.dat", 24, 32) for n in FRAMES])
    blur, sharp = (raw_frames(small_run, "b", kind) for kind in ("blur", "sharp"))
    gray = np.stack([luma(frame) for frame in blur]).reshape(5, 24, 2, 32, 2).mean((2, 4))
    whole = spikes.mean(axis=1)
    gain = (gray * whole).sum() / (whole**2).sum()
    window = (gain * spikes[:, 24 - 10 : 24 + 10].mean(axis=1)).astype(np.float32)
    for scale in (1.0, 0.5):
        rows = frames[(frames["scale"] == scale) & (frames["sequence"] == "b")]
        expected = []
        for seen, truth in zip(window, sharp, strict=True):
            if scale == 1:
                seen = cv2.resize(seen, (64, 48), interpolation=cv2.INTER_CUBIC)
                truth = gray_of(truth)
            else:
                truth = gray_of(np.rint(truth.reshape(24, 2, 32, 2, 3).mean((1, 3))))
            expected.append(decibels(np.rint(seen).clip(0, 255)[..., None], truth))
        assert rows["psnr_spikes"].tolist() == pytest.approx(expected, abs=0.02)
    main = pd.read_csv(evaluated / "sequences.csv")
    main = main[main["scale"] == 1]
    assert summary["spikes_alone"] == {
        name: pytest.approx(main[f"{name}_spikes"].mean(), abs=1e-5) for name in ("psnr", "ssim")
    }
    assert "TFP" in summary["spikes_alone_note"]
    assert summary["spikes_alone_note"] in (evaluated / "metrics.html").read_text()


def test_examples_hold_the_frames_themselves(small_run, evaluated, restored):
    blur, sharp = (raw_frames(small_run, "b", kind) for kind in ("blur", "sharp"))
    folder = evaluated / "examples" / "b"
    for example in folder.iterdir():
        number = FRAMES.index(example.name)
        np.testing.assert_array_equal(read_rgb(example / "blurry.png"), blur[number])
        np.testing.assert_array_equal(read_rgb(example / "sharp.png"), sharp[number])
        shown = read_rgb(example / "restored.png").astype(int)
        assert np.abs(shown - restored["b"][number]).max() <= 1
        seen = read_gray(example / "spikes.png")
        area = luma(sharp[number]).reshape(24, 2, 32, 2).mean(axis=(1, 3))
        assert seen.shape == (24, 32)
        assert np.abs(seen - area).mean() < 15
    half = next((evaluated / "examples" / "b_x0.5").iterdir())
    assert read_rgb(half / "sharp.png").shape == (24, 32, 3)
    assert read_gray(half / "spikes.png").shape == (24, 32)


def test_the_worst_frames_are_named(evaluated):
    summary = json.loads((evaluated / "summary.json").read_text())
    frames = pd.read_csv(evaluated / "frames.csv", dtype={"frame": str})
    rows = frames[frames["scale"] == 1].sort_values("psnr").head(5)
    assert summary["worst"] == [
        {"sequence": s, "frame": f, "psnr": pytest.approx(v, abs=1e-5)}
        for s, f, v in rows[["sequence", "frame", "psnr"]].to_numpy()
    ]
    first = rows.iloc[0]
    named = (
        f"Worst restored frames by psnr: {first['sequence']}/{first['frame']} "
        f"({first['psnr']:.2f} dB)"
    )
    lines = summary_lines(summary)
    assert lines[:2] == ["small: 10 frames, 2 sequences", "protocol own"]
    header = " ".join(lines[2].split())
    assert header == "metric blurry restored spikes alone (grey) standard error"
    means, alone = summary["metrics"]["psnr"], summary["spikes_alone"]["psnr"]
    figures = (means["blurry"], means["restored"], alone, means["restored_error"])
    assert lines[3].split() == ["psnr", *" dB ".join(f"{f:.2f}" for f in figures).split(), "dB"]
    assert lines[-1].startswith(named)
    # This model knows nothing: what the spikes show is nearer to the sharp frames.
    sequences = pd.read_csv(evaluated / "sequences.csv")
    row = sequences[(sequences["sequence"] == "b") & (sequences["scale"] == 1)].iloc[0]
    told = "The spikes alone have a better psnr than the restored frames: b "
    told += f"({row['psnr_spikes']:.2f} dB against {row['psnr']:.2f} dB)"
    assert lines[-2].startswith(told)
    page = (evaluated / "metrics.html").read_text()
    assert named in page
    assert told in page


def test_without_a_baseline_and_with_a_metric_of_motion(small_run, tmp_path):
    summary = evaluate(small_run, tmp_path, "TEST.METRICS=[tof]", "TEST.SPIKES_ALONE=null")
    frames = pd.read_csv(tmp_path / "frames.csv", dtype={"frame": str})
    assert frames.columns.tolist() == [
        "protocol", "sequence", "frame", "scale", "tof_blur", "tof",
    ]  # fmt: skip
    assert frames["tof"].isna().tolist() == ([True] + 4 * [False]) * 2
    means = frames.groupby("sequence")[["tof_blur", "tof"]].mean().mean()
    assert summary["metrics"]["tof"]["gain"] == pytest.approx(means["tof_blur"] - means["tof"])
    assert summary["spikes_alone"] is None
    assert "TEST.SPIKES_ALONE" in summary["spikes_alone_note"]
    assert {frame["sequence"] for frame in summary["worst"]} <= {"b", "c"}
    index = json.loads((tmp_path / "examples" / "examples.json").read_text())
    assert all("spikes" not in entry["files"] for entry in index["examples"])
    assert "spikes alone" not in (tmp_path / "metrics.html").read_text()


@pytest.mark.parametrize(
    ("overrides", "bins", "error", "told"),
    [
        ("METRICS=[psnr, tof] EVAL_SCALES=[0.5]", 4, ConfigError, r"those of b_x0\.5 have 24 x 32"),
        (
            *("METRICS=[psnr, lpips]", 4, DataError),
            r"names lpips.*alexnet-owt-7be5be79\.pth: no such file.* --cores 1 weights",
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
    ids=["size", "weights", "bins", "blur", "metrics"],
)
def test_what_cannot_be_measured_is_an_error_before_anything_is_restored(
    small_run, tmp_path, overrides, bins, error, told
):
    dataset = small_run.dataset.with_name("other.json")
    dataset.write_text(json.dumps(json.loads(small_run.dataset.read_text()) | {"bins": bins}))
    keys = [f"TEST.{each}" for each in re.split(r" (?=[A-Z])", overrides)]
    with pytest.raises(error, match=f"(?s){told}"):
        evaluate(small_run, tmp_path, *keys, dataset=dataset)
    assert list(tmp_path.iterdir()) == []


def picture_columns(path: Path, count: int) -> list[np.ndarray]:
    """The frames in a comparison of 64 pixels wide ones, which are shown seven times enlarged."""
    picture = read_rgb(path)
    left = [column * (7 * 64 + GAP) for column in range(count)]
    assert picture.shape[1] == left[-1] + 7 * 64
    rows = slice(LABEL_HEIGHT, LABEL_HEIGHT + 7 * 48, 7)
    return [picture[rows, start : start + 7 * 64 : 7] for start in left]


def summarized(
    output: Path, run: PublishedRun, dataset: Path, *rows: tuple[float, ...]
) -> dict[str, Any]:
    """The summary of a frame at some scales: scale, and PSNR before and after."""
    frames = pd.DataFrame(rows, columns=["scale", "psnr_blur", "psnr"])
    frames = frames.assign(protocol="own", sequence="b", frame="1")
    measured = {PROTOCOLS["own"]: [METRICS["psnr"]]}
    return write_results(output, run, load_dataset(dataset), frames, measured)


@pytest.mark.parametrize(("validation", "told"), [("held_out", False), ("test", True)])
def test_a_run_that_was_chosen_on_the_test_split_says_so(small_run, tmp_path, validation, told):
    run = read_published(small_run.train)
    data = run.settings.DATA.model_copy(update={"VALIDATION": validation})
    settings = run.settings.model_copy(update={"DATA": data})
    run = replace(run, settings=settings)
    summary = summarized(tmp_path, run, small_run.dataset, (1.0, 20.0, 30.0))
    assert ("chosen on the test split" in " ".join(summary["warnings"])) is told
    assert ("chosen on the test split" in (tmp_path / "metrics.html").read_text()) is told


def test_the_summary_says_what_was_measured(small_run, evaluated):
    summary = json.loads((evaluated / "summary.json").read_text())
    manifest = json.loads(small_run.dataset.read_text())
    assert (summary["dataset"], summary["dataset_digest"]) == ("small", manifest["digest"])
    assert (summary["split"], summary["device"]) == ("test", "cpu")
    assert (summary["scale"], list(summary["other_scales"])) == (1.0, ["0.5"])
    assert {key: summary["tile"][key] for key in ("SIZE", "OVERLAP")} == {"SIZE": 64, "OVERLAP": 8}
    assert summary["preset"] == "small"
    assert summary["fingerprint"] == "0123456789ab"
    assert summary["blur_dir"] == "blur"
    assert (summary["sequences"], summary["frames"]) == (2, 10)
    assert set(summary["definitions"]) == set(summary["metrics"]) == {"psnr", "ssim"}
    page = (evaluated / "metrics.html").read_text()
    assert "Protocol own, mean over sequences" in page
    assert summary["definitions"]["ssim"] in page


def table_rows(page: str) -> list[list[str]]:
    rows = re.findall(r"<tr.*?</tr>", page)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_the_page_shows_each_sequence_and_the_mean_at_the_main_scale(evaluated):
    frames = pd.read_csv(evaluated / "frames.csv")
    names = ["psnr_blur", "psnr", "psnr_spikes", "ssim_blur", "ssim", "ssim_spikes"]
    means = frames[frames["scale"] == 1].groupby("sequence")[names].mean()
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


@pytest.mark.parametrize(("scales", "main"), [("[0.5, 1.0]", 1.0), ("[0.5, 0.75]", 0.5)])
def test_the_main_scale_is_1_or_the_first(small_run, tmp_path, scales, main):
    run = read_published(small_run.train).with_overrides([f"TEST.EVAL_SCALES={scales}"])
    rows = [(s, 20.0, 30.0 * s) for s in run.settings.TEST.EVAL_SCALES]
    summary = summarized(tmp_path, run, small_run.dataset, *rows)
    assert (summary["scale"], summary["frames"]) == (main, 1)
    assert summary["metrics"]["psnr"]["restored"] == 30 * main
    (other,) = {0.5, 0.75, 1.0} & set(run.settings.TEST.EVAL_SCALES) - {main}
    assert list(summary["other_scales"]) == [f"{other:g}"]


def test_a_picture_of_the_middle_frame_of_each_sequence(small_run, evaluated, restored):
    pictures = evaluated / "pictures"
    assert sorted(path.name for path in pictures.iterdir()) == [
        "b_000003.png", "b_x0.5_000003.png", "c_000003.png", "c_x0.5_000003.png",
    ]  # fmt: skip
    for sequence in "bc":
        blur, shown, sharp = picture_columns(pictures / f"{sequence}_000003.png", 3)
        np.testing.assert_array_equal(blur, raw_frames(small_run, sequence, "blur")[2])
        np.testing.assert_array_equal(sharp, raw_frames(small_run, sequence, "sharp")[2])
        expected = restored[sequence][2]
        assert np.abs(shown.astype(int) - expected).max() <= 1
        assert np.abs(blur.astype(int) - expected).mean() > 1


def test_repeating_gives_the_same_figures_and_no_leftovers(small_run, evaluated, tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "of_an_older_run.png").touch()
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "of_an_older_run.mp4").touch()
    evaluate(small_run, tmp_path)
    again, first = (pd.read_csv(folder / "frames.csv") for folder in (tmp_path, evaluated))
    np.testing.assert_allclose(again["psnr"], first.loc[first["scale"] == 1, "psnr"], atol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "examples", "frames.csv", "metrics.html", "pictures", "sequences.csv", "summary.json",
    ]  # fmt: skip
    assert len(list((tmp_path / "pictures").iterdir())) == 2
