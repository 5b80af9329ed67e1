from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.deblurring.reference_metrics import decibels, similarity
from vrtspike.deblurring.evaluation.folder import NO_SPIKES, Request, open_request, restore_into
from vrtspike.deblurring.evaluation.given_clips import SIMULATED, open_clip
from vrtspike.deblurring.evaluation.restore import torch_compute
from vrtspike.deblurring.evaluation.tiling import Tiling
from vrtspike.deblurring.evaluation.trained import TrainedModel, load
from vrtspike.deblurring.video import read_video, video_file, video_rate
from vrtspike.io.images import read_rgb, write_png
from vrtspike.system.errors import ConfigError, DataError, RunError

NAMES = [f"{number:06d}" for number in range(1, 6)]


@pytest.fixture(scope="module")
def model(small_run) -> TrainedModel:
    return load(small_run.train, device="cpu")


@pytest.fixture
def asked(small_run, tmp_path) -> Request:
    sequence = small_run.raw / "test" / "b"
    return Request(sequence / "blur", tmp_path / "out", sequence / "spike")


def restore(model: TrainedModel, asked: Request, note=lambda text: None, show=lambda *done: None):
    source, sharp = open_request(model.run, asked)
    progress = contextlib.nullcontext(show)
    return restore_into(model, asked, source, sharp, progress=lambda title: progress, note=note)


def pictures(folder: Path) -> list[np.ndarray]:
    return [read_rgb(path) for path in sorted(folder.iterdir())]


@pytest.fixture(scope="module")
def whole(small_run, model, tmp_path_factory):
    """Everything that one call can make of a clip, and its record."""
    output = tmp_path_factory.mktemp("whole")
    sequence = small_run.raw / "test" / "b"
    asked = Request(
        sequence / "blur", output, sequence / "spike", sharp=sequence / "sharp", tile=32,
        video=True, side_by_side=True,
    )  # fmt: skip
    return asked, restore(model, asked)


def test_frames_and_their_figures(small_run, model, whole):
    asked, record = whole
    restored = pictures(asked.output / "restored")
    source = open_clip(model.run, asked.frames, asked.spikes)
    expected = list(model.restore_source(source, model.tiling(source, 32)))
    np.testing.assert_array_equal(restored, expected)
    assert [frame["frame"] for frame in record["frames"]] == NAMES
    blurry, sharp = (pictures(small_run.raw / "test/b" / kind) for kind in ("blur", "sharp"))
    for column, images in (("_blur", blurry), ("", restored)):
        for name, measure in (("psnr", decibels), ("ssim", similarity)):
            figures = [frame[f"{name}{column}"] for frame in record["frames"]]
            assert figures == pytest.approx(list(map(measure, images, sharp)))


def test_the_record_says_what_was_done(whole):
    asked, record = whole
    assert json.loads((asked.output / "restore.json").read_text()) == record
    expected = {
        "precision": "float32", "device": "cpu", "size": [48, 64],
        "tiling": asdict(Tiling(32, 8, 3, 1)),
        # 2 x 3 tiles of 32 x 32 for 48 x 64 pixels, 2 windows of 3 for 5 frames.
        "recomputation": pytest.approx(6 * 32 * 32 / (48 * 64) * 6 / 5),
        "paths": {"input": str(asked.frames), "spikes": str(asked.spikes)},
    }  # fmt: skip
    assert {key: record[key] for key in expected} == expected
    assert record["model"]["fingerprint"] == "0123456789ab"
    assert record["spikes"]["from"] == "recorded"
    assert record["seconds_per_frame"] > 0
    assert {path.name for path in asked.output.iterdir()} == {
        "restored", "restored.mp4", "side_by_side.mp4", "restore.json",
    }  # fmt: skip


def test_videos_show_the_frames_in_order(small_run, whole):
    asked, _ = whole
    sequence = small_run.raw / "test" / "b"
    folders = (sequence / "blur", asked.output / "restored", sequence / "sharp")
    kinds = [pictures(folder) for folder in folders]
    alone = list(read_video(asked.output / "restored.mp4"))
    beside = list(read_video(asked.output / "side_by_side.mp4"))
    assert len(alone) == len(beside) == 5

    def nearest(shown: np.ndarray, candidates: list[np.ndarray]) -> int:
        return int(np.argmin([np.square(shown.astype(float) - c).mean() for c in candidates]))

    for number in range(5):
        assert nearest(alone[number], kinds[1]) == number
        assert beside[number].shape == (48, 192, 3)
        for place in range(3):
            shown = beside[number][:, 64 * place : 64 * place + 64]
            assert nearest(shown, [kind[number] for kind in kinds]) == place


def test_a_stopped_call_goes_on_and_gives_the_same(model, asked, whole):
    finished = pictures(whole[0].output / "restored")
    asked = replace(asked, tile=32)

    def stop(done, total):
        if done == 8:  # in the second window of six tiles
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(model, asked, show=stop)
    kept = sorted((asked.output / "restored").iterdir())
    assert [path.stem for path in kept] == NAMES[:2]
    before = [path.stat().st_mtime_ns for path in kept]
    notes, tiles = [], []
    restore(model, asked, notes.append, lambda *done: tiles.append(done))
    assert notes == ["2 of 5 frames are there already, restored before"]
    # The third frame belongs to both windows.
    assert (12, 12) in tiles
    np.testing.assert_array_equal(pictures(asked.output / "restored"), finished)
    assert [path.stat().st_mtime_ns for path in kept] == before
    # A frame that is lost is restored again, alone, and in the same tiles.
    kept[0].unlink()
    tiles.clear()
    with pytest.raises(ConfigError, match="found frames restored with --tile 32"):
        restore(model, replace(asked, tile=16))
    restore(model, replace(asked, tile=None), show=lambda *done: tiles.append(done))
    assert {total for _, total in tiles} == {6, 5}  # tiles, frames
    np.testing.assert_array_equal(pictures(asked.output / "restored"), finished)
    assert kept[1].stat().st_mtime_ns == before[1]


def test_what_is_there_is_used_for_what_is_missing(model, asked, whole):
    shutil.copytree(whole[0].output, asked.output)
    (asked.output / "restored.mp4").unlink()
    # No frame is restored: the model need not be called.
    record = restore(replace(model, compute=None), replace(asked, video=True))
    assert len(list(read_video(asked.output / "restored.mp4"))) == 5
    assert record["seconds_per_frame"] == whole[1]["seconds_per_frame"]
    # Without sharp frames, what was recorded tells how frames came out.
    assert set(record["frames"][0]) == {
        *("frame", "reblur_blur", "reblur", "agreement_blur", "agreement", "agreement_outside"),
    }


def test_frames_of_something_else_are_not_mixed_in(small_run, model, asked, whole, tmp_path):
    shutil.copytree(whole[0].output, asked.output)
    sequence = small_run.raw / "test" / "b"
    shutil.copytree(sequence, tmp_path / "moved")
    moved = replace(asked, frames=tmp_path / "moved/blur", spikes=tmp_path / "moved/spike")
    restore(model, moved)  # the same inputs elsewhere are the same

    def refused(changed: Request, words: str, other: TrainedModel = model) -> None:
        with pytest.raises(ConfigError, match=f"{words}.*--overwrite"):
            restore(other, changed)

    refused(replace(moved, simulate_spikes=True, spikes=None), "frames restored with other spikes")
    (tmp_path / "moved/config.yaml").write_text("spike_h: 12\nspike_w: 16\n")
    refused(moved, "with other spikes")
    (tmp_path / "moved/config.yaml").unlink()
    refused(asked, "with other model", replace(model, weights="others"))
    refused(asked, "with other precision", replace(model, precision="bfloat16"))
    spikes = tmp_path / "moved/spike/000003.dat"
    contents = bytearray(spikes.read_bytes())
    contents[len(contents) // 2] ^= 1
    spikes.write_bytes(contents)
    refused(moved, "with other spikes")
    write_png(tmp_path / "moved/blur/000003.png", np.zeros((48, 64, 3), np.uint8))
    refused(moved, "with other blurry frames, spikes")
    (asked.output / "restore.json").write_text("{")
    with pytest.raises(RunError, match=r"restore\.json: damaged.*--overwrite"):
        restore(model, asked)
    (asked.output / "restore.json").unlink()
    refused(asked, "frames restored by something else")
    assert len(list((asked.output / "restored").iterdir())) == 5


@pytest.mark.parametrize(
    ("option", "place"),
    [("frames", "restored"), ("frames", "restored.mp4"), ("sharp", "restored/../restored")],
)
def test_results_are_not_written_over_their_input(model, whole, option, place):
    asked, _ = whole
    changed = replace(asked, overwrite=True, **{option: asked.output / place})
    with pytest.raises(ConfigError, match="lies where the results of"):
        restore(model, changed)
    assert len(pictures(asked.output / "restored")) == len(NAMES)


def test_anew_replaces_what_this_program_has_made(model, asked, whole):
    shutil.copytree(whole[0].output, asked.output)
    with pytest.raises(ConfigError, match="--tile: found 33"):
        restore(model, replace(asked, tile=33, overwrite=True))
    assert len(pictures(asked.output / "restored")) == len(NAMES)
    (asked.output / "notes.txt").touch()
    (asked.output / "restored" / "000009.png").touch()
    record = restore(model, replace(asked, tile=40, overwrite=True))
    assert record["tiling"]["size"] == 40
    assert {path.name for path in asked.output.iterdir()} == {
        "restored", "restore.json", "notes.txt",
    }  # fmt: skip
    assert [path.stem for path in sorted((asked.output / "restored").iterdir())] == NAMES


def test_a_video_with_simulated_spikes(small_run, model, asked, tmp_path):
    path = tmp_path / "blur.mp4"
    with video_file(path, fps=Fraction(30000, 1001)) as append:
        for frame in pictures(asked.frames):
            append([frame])
    made = replace(asked, frames=path, spikes=None, simulate_spikes=True, side_by_side=True)
    record = restore(model, made)
    assert record["spikes"]["from"] == SIMULATED
    assert [frame["frame"] for frame in record["frames"]] == NAMES
    frames = list(read_video(asked.output / "side_by_side.mp4"))
    assert len(frames) == 5
    assert frames[0].shape == (48, 128, 3)
    assert video_rate(asked.output / "side_by_side.mp4") == Fraction(30000, 1001)
    # The same call again finds its frames.
    notes: list[str] = []
    restore(model, made, notes.append)
    assert notes == ["5 of 5 frames are there already, restored before"]


def test_frames_equal_to_the_sharp_ones_have_no_finite_figure(model, asked, whole):
    shutil.copytree(whole[0].output, asked.output)
    sharp = shutil.copytree(asked.output / "restored", asked.output.parent / "sharp")
    record = restore(model, replace(asked, sharp=sharp))
    assert json.loads((asked.output / "restore.json").read_text()) == record
    first = record["frames"][0]
    assert (first["psnr"], first["ssim"]) == (None, pytest.approx(1))
    assert first["psnr_blur"] > 10


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "sharp: no pictures"),
        (NAMES, r"000001\.png: 48 x 62 pixels, expected 48 x 64"),
        (NAMES[1:], r"without a sharp one \(1\):\n  - 000001"),
    ],
)
def test_sharp_frames_that_cannot_be_compared_are_told(model, asked, tmp_path, names, told):
    for name in names:
        write_png(tmp_path / "sharp" / f"{name}.png", np.zeros((48, 62, 3), np.uint8))
    with pytest.raises(DataError, match=told):
        restore(model, replace(asked, sharp=tmp_path / "sharp"))
    assert not asked.output.exists()


def test_spikes_and_sharp_frames_of_another_sequence_are_doubted(small_run, model, asked):
    notes: list[str] = []
    other = small_run.raw / "test/c"
    restore(model, replace(asked, spikes=other / "spike", sharp=other / "sharp"), notes.append)
    spikes, sharp = notes
    assert spikes.startswith("warning: spikes that do not fit")
    assert "do not show" in spikes
    assert sharp.startswith("warning: sharp frames that do not fit their blurry ones")
    assert "Give --sharp the frames of this clip" in sharp
    assert (
        f"{asked.frames}/000001.png: does not show the scene of {other}/sharp/000001.png" in sharp
    )


def test_sharp_frames_in_another_order_of_channels_are_doubted(small_run, model, asked, tmp_path):
    sharp = small_run.raw / "test/b/sharp"
    for path in sharp.iterdir():
        picture = read_rgb(path)
        write_png(tmp_path / "bgr" / path.name, np.ascontiguousarray(picture[..., ::-1]))
    notes: list[str] = []
    restore(model, replace(asked, sharp=sharp), notes.append)
    assert notes == []
    restore(model, replace(asked, sharp=tmp_path / "bgr", overwrite=True), notes.append)
    (note,) = notes
    assert note.startswith("warning: sharp frames that do not fit their blurry ones")
    assert f"{asked.frames}/000001.png: not the colours of {tmp_path}/bgr/000001.png" in note
    assert "red and blue are exchanged in one of them" in note


def test_the_record_of_a_model_without_spikes(model, asked):
    def same(blur, voxels):
        assert voxels is None
        return blur

    tree = model.settings.model_dump(mode="json")
    tree["MODEL"]["USE_SPIKE"] = False
    run = replace(model.run, settings=type(model.settings).model_validate(tree))
    plain = replace(model, run=run, compute=torch_compute(same, None, model.device))
    record = restore(plain, replace(asked, spikes=None))
    assert record["spikes"]["from"] == NO_SPIKES
    np.testing.assert_array_equal(pictures(asked.output / "restored"), pictures(asked.frames))
