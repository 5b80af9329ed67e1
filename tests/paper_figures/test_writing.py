"""The written figures and their data."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest

from tests.paper_figures.conftest import SIZE, SceneSequence, decibels
from vrtspike.paper_figures.crop_boxes import Box, CropSpec, parse_crop
from vrtspike.paper_figures.names import FIGURE_NAMES
from vrtspike.paper_figures.results import Cost
from vrtspike.system.errors import ConfigError, DataError


def table(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{name}.csv", dtype={"frame": str})


def test_every_figure_is_written_with_truetype_fonts(scene, write):
    scene.motion = [0.0, 10.0, 20.0]
    cost = Cost(30.0, 2e6, 0.5, "cpu", "made", "own")
    result = scene.result("one", scene.sharp + np.uint8(3), cost=cost)
    folder, lines = write([result], error_maps=True)
    assert [line.split(":")[0] for line in lines] == list(FIGURE_NAMES)
    assert not any("left out" in line for line in lines)
    for name in FIGURE_NAMES:
        contents = (folder / f"{name}.pdf").read_bytes()
        assert b"/Type3" not in contents
        assert b"/FontFile2" in contents, "no TrueType font is embedded"
        width = cv2.imread(str(folder / f"{name}.png")).shape[1] / 300
        assert width in (3.3, 6.9)
        assert len(table(folder, name))
    assert sorted({path.suffix for path in folder.iterdir()}) == [".csv", ".pdf", ".png"]


def test_a_name_with_dollars_is_no_formula(scene, write):
    cost = Cost(30.0, 2e6, 0.5, "cpu", "made", "own")
    folder, _ = write([scene.result(r"$\no_formula$", scene.sharp + np.uint8(3), cost=cost)])
    assert (folder / "crops.png").is_file()
    assert (folder / "quality_over_cost.png").is_file()


@pytest.mark.parametrize(
    ("font", "other", "character"),
    [("sans", "STIXGeneral", "\u20dd"), ("serif", "DejaVu Sans", "☃")],
)
def test_characters_that_the_font_lacks_are_those_of_a_chinese_font(
    scene, write, monkeypatch, font, other, character
):
    """Stand-ins for a Chinese font, which not every machine has."""
    monkeypatch.setattr("vrtspike.plotting.drawing._CHINESE", ("not installed", other))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Glyph")
        write([scene.result(character, scene.sharp + np.uint8(3))], names=["xt"], font=font)


def test_crops_are_chosen_where_models_differ_most(scene, models, write):
    folder, _ = write(models, names=["crops"])
    rows = table(folder, "crops")
    # The sequence with the bad square first; in it the frame and the place of the square.
    first = rows[rows["sequence"] == "b"].iloc[0]
    assert rows["sequence"].iloc[0] == "b"
    assert first["frame"] == "000002"
    assert (first["width"], first["height"]) == (48, 36)
    box = Box(int(first["x"]), int(first["y"]), 48, 36)
    error = np.square(scene.blurry[1, 1] * 0.0)
    error[24:48, 40:90] = 1
    assert box.crop(error).sum() == 24 * 48 * 3, "not all of the square's rows, or not its columns"
    order = ["blurry", "spikes", "good", "bad", "sharp"]
    assert rows[rows["sequence"] == "b"]["image"].tolist() == order


def test_the_psnr_of_a_crop_is_that_of_its_pixels(scene, models, write):
    folder, _ = write(models, names=["crops"], crops=[parse_crop("b/000002:30,20,40,30")])
    rows = table(folder, "crops").set_index("image")
    part = (1, 1, slice(20, 50), slice(30, 70))
    bad = scene.sharp[1, 1] + np.uint8(5)
    bad[24:48, 40:90] += np.uint8(40)
    assert rows["psnr"]["bad"] == pytest.approx(
        decibels(bad[part[2:]], scene.sharp[part]), abs=1e-3
    )
    assert rows["psnr"]["good"] == pytest.approx(20 * np.log10(255 / 4), abs=1e-3)
    assert rows["psnr"]["blurry"] == pytest.approx(20 * np.log10(255 / 20), abs=1e-3)
    assert rows["mean_absolute_error"]["good"] == 4
    assert rows.loc[["spikes", "sharp"], "psnr"].isna().all()


def test_with_one_model_the_crops_are_those_where_it_gains_most(scene, write):
    restored = scene.sharp + np.uint8(19)
    restored[0, 2] = scene.sharp[0, 2] + np.uint8(1)
    folder, _ = write([scene.result("one", restored)], names=["crops"])
    assert table(folder, "crops")["frame"].iloc[0] == "000003"
    assert table(folder, "crops")["sequence"].iloc[0] == "a"


def test_chosen_sequences_and_equal_frames(scene, write):
    restored = scene.sharp + np.uint8(6)
    restored[1, 0] = scene.sharp[1, 0]
    with np.errstate(divide="ignore"):
        result = scene.result("one", restored)
    folder, _ = write([result], names=["crops"], sequences=["b"])
    rows = table(folder, "crops")
    # No frame is better than an equal one, but its gain is not finite.
    assert rows[["sequence", "frame"]].drop_duplicates().to_numpy().tolist() == [["b", "000002"]]


def test_psnr_over_frames_has_a_column_for_each_model(scene, models, write):
    folder, _ = write(models, names=["psnr_over_frames"])
    rows = table(folder, "psnr_over_frames")
    assert rows.columns.tolist() == ["sequence", "frame", "number", "blurry", "good", "bad"]
    assert rows["number"].tolist() == [1, 2, 3] * 2
    assert rows["good"].to_numpy() == pytest.approx(20 * np.log10(255 / 4), abs=1e-3)
    bad = 25 + (45**2 - 25) * 24 * 50 / (SIZE[0] * SIZE[1])
    assert rows["bad"][4] == pytest.approx(10 * np.log10(255**2 / bad), abs=1e-3)
    folder, _ = write(models, names=["psnr_over_frames"], sequences=["b"])
    assert set(table(folder, "psnr_over_frames")["sequence"]) == {"b"}


def test_frames_keep_their_numbers_where_a_model_lacks_others(models, write):
    first, second = models
    part = replace(second, frame_psnr=second.frame_psnr.drop(index=[0, 4]))
    for results in ([first, part], [part, first]):
        folder, _ = write(results, names=["psnr_over_frames"])
        rows = table(folder, "psnr_over_frames")
        assert rows["frame"].tolist() == ["000002", "000003", "000001", "000003"]
        assert rows["number"].tolist() == [2, 3, 1, 3]
        assert rows[["good", "bad"]].notna().all(axis=None)


def test_a_model_without_a_finite_psnr_has_an_empty_column(models, write):
    equal = replace(models[1], frame_psnr=models[1].frame_psnr.assign(psnr=np.nan))
    folder, _ = write([models[0], equal], names=["psnr_over_frames"])
    rows = table(folder, "psnr_over_frames")
    assert rows.columns.tolist()[-2:] == ["good", "bad"]
    assert rows["bad"].isna().all()
    assert rows["good"].notna().all()


def test_gain_over_motion_has_medians_over_bins(scene, write):
    scene.motion = [30.0, 10.0, 20.0]
    restored = scene.sharp + np.uint8(10)
    restored[:, 1] = scene.sharp[:, 1] + np.uint8(5)
    folder, _ = write([scene.result("one", restored)], names=["gain_over_motion"])
    points = table(folder, "gain_over_motion")
    assert points["motion"].tolist() == [30, 10, 20] * 2
    gains = [20 * np.log10(20 / 10), 20 * np.log10(20 / 5)]
    assert points["gain"].tolist() == pytest.approx([gains[0], gains[1], gains[0]] * 2, abs=1e-4)
    bins = table(folder, "gain_over_motion_bins")
    # Six frames are one bin.
    assert bins[["motion", "frames"]].to_numpy().tolist() == [[20, 6]]
    assert bins["gain"][0] == pytest.approx(gains[0], abs=1e-4)


def test_flicker_is_the_change_that_the_sharp_row_does_not_have(scene, write):
    restored = scene.sharp + np.uint8(3)
    restored[0, 1] += np.uint8(6)
    folder, _ = write([scene.result("one", restored)], names=["xt"], row=("a", 17))
    rows = table(folder, "xt").set_index(["image", "number"])
    assert set(rows["row"]) == {17}
    # The blurry frames have a constant error; of the model the second frame is brighter by 6.
    assert rows["flicker"]["blurry"].tolist()[1:] == [0, 0]
    assert rows["flicker"]["one"].tolist()[1:] == [6, 6]
    line = scene.sharp[0, :, 17].astype(float)
    change = np.abs(line[2] - line[1]).mean()
    assert rows["change"]["sharp"][3] == pytest.approx(change, rel=1e-4)
    assert np.isnan(rows["change"]["sharp"][1])


def test_published_rows_of_the_same_protocol_stand_beside_own_ones(scene, write):
    cost = Cost(33.0, 2e6, 0.5, "cuda", "gopro", "vrt")
    result = scene.result("one", scene.sharp, cost=cost)
    rows = table(write([result], names=["quality_over_cost"])[0], "quality_over_cost")
    assert rows[["model", "psnr", "published"]].to_numpy().tolist() == [
        ["one", 33.0, False],
        ["VRT", 34.81, True],
    ]
    counted = replace(result, cost=replace(cost, protocol="own"))
    rows = table(write([counted], names=["quality_over_cost"])[0], "quality_over_cost")
    assert rows["model"].tolist() == ["one"]


def test_figures_without_data_are_left_out_with_the_reason(scene, models, write):
    bare = [replace(result, frame_psnr=result.frame_psnr[:0], cost=None) for result in models]
    folder, lines = write(bare)
    left_out = {line.split(":")[0]: line for line in lines if "left out" in line}
    assert list(left_out) == ["psnr_over_frames", "gain_over_motion", "quality_over_cost"]
    assert "no result has PSNR of its frames" in left_out["psnr_over_frames"]
    assert "no result is an evaluated run" in left_out["quality_over_cost"]
    assert (folder / "xt.png").is_file()
    assert not (folder / "psnr_over_frames.csv").exists()
    with pytest.raises(ConfigError, match="--only quality_over_cost: left out, no result is"):
        write(bare, names=["quality_over_cost"])
    _, lines = write(models)
    assert [line.split(":")[0] for line in lines if "left out" in line] == ["gain_over_motion"]


class WithoutSharp(SceneSequence):
    """A sequence without sharp frames."""

    def sharp(self, frame: str) -> None:
        return None

    def spikes(self, frame: str) -> None:
        return None


def test_error_maps_need_sharp_frames(scene, write, tmp_path):
    clips = {
        "a": WithoutSharp("a", scene.blurry[0], scene.sharp[0], scene.sharp[0], []),
        "b": scene.clip("b", scene.sharp),
    }
    result = replace(scene.result("one", scene.sharp), clips=clips)
    crops = [parse_crop("a/000001:0,0,40,30"), parse_crop("b/000002:0,0,40,30")]
    message = r"--error-maps: crops without a sharp frame .*\(1\):\n  - a/000001\n.*--sharp"
    with pytest.raises(ConfigError, match=message):
        write([result], names=["crops"], crops=crops, error_maps=True)
    assert not (tmp_path / "figures").exists()
    folder, _ = write([result], names=["crops"], crops=crops)
    assert (folder / "crops.png").is_file()


@pytest.mark.parametrize(
    ("crop", "message"),
    [
        ("c/000001:0,0,8,8", "no sequence 'c'; sequences of all results: a, b"),
        ("a/00001:0,0,8,8", "no frame '00001' in sequence a; did you mean 000001?; frames of all"),
        ("a/000009:0,0,8,8", "frames of all results: 3, 000001 to 000003"),
        ("a/000001:90,0,11,8", "outside of the frame of 100 x 60 pixels"),
    ],
)
def test_a_wrong_crop_is_refused_before_anything_is_written(models, write, tmp_path, crop, message):
    with pytest.raises(ConfigError) as raised:
        write(models, crops=[parse_crop(crop)])
    assert message in str(raised.value)
    assert not (tmp_path / "figures").exists()


def test_wrong_sequences_and_rows_are_refused(models, write):
    with pytest.raises(ConfigError, match="--sequence c: no sequence 'c'"):
        write(models, sequences=["c"])
    with pytest.raises(ConfigError, match="--row a:60: found row 60, outside of the frames of 60"):
        write(models, row=("a", 60))
    with pytest.raises(ConfigError, match="--row c:1: no sequence 'c'"):
        write(models, row=("c", 1))


def test_a_row_needs_a_frame_of_all_results(scene, models, write):
    clip = scene.clip("a", scene.sharp)
    clip.frames = []
    other = replace(models[1], clips={"a": clip})
    with pytest.raises(ConfigError, match=r"--row a:17: there is no frame .* of all results"):
        write([models[0], other], names=["xt"], row=("a", 17))


def test_results_of_different_frames_do_not_compare(scene, models, write):
    other = scene.result("other", scene.sharp)
    table = other.frame_psnr.assign(psnr_blur=other.frame_psnr["psnr_blur"] + 1)
    with pytest.raises(DataError, match=r"results/good, results/other: the blurry frame a/000001"):
        write([models[0], replace(other, frame_psnr=table)], names=["psnr_over_frames"])
    clips = {"a": SceneSequence("a", scene.sharp[0], scene.sharp[0], scene.sharp[0], [])}
    place = CropSpec("a", "000001", Box(0, 0, 8, 8))
    with pytest.raises(DataError, match="different blurry frames a/000001"):
        write([models[0], replace(other, clips=clips)], names=["crops"], crops=[place])


def test_equal_data_give_equal_files(models, write):
    folder, _ = write(models, names=["crops", "psnr_over_frames"])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write(models, names=["crops", "psnr_over_frames"])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
