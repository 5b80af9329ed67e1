"""Metrics and videos of restored frames."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.deblurring.reference_metrics import decibels, similarity
from tests.restoration.folder_runs import NAMES, pictures, restore
from vrtspike.data.video import read_video
from vrtspike.io.images import read_rgb, write_png
from vrtspike.restoration.inputs.input_clip import open_clip


def test_frames_and_their_metrics(small_run, model, whole):
    job, record = whole
    restored = pictures(job.output / "restored")
    source = open_clip(model.run, job.frames, job.spikes)
    expected = list(model.restore_source(source, model.tiling(source, 32)))
    np.testing.assert_array_equal(restored, expected)
    assert [frame["frame"] for frame in record["frames"]] == NAMES
    blurry, sharp = (pictures(small_run.raw / "test/b" / kind) for kind in ("blur", "sharp"))
    for column, images in (("_blur", blurry), ("", restored)):
        for name, measure in (("psnr", decibels), ("ssim", similarity)):
            values = [frame[f"{name}{column}"] for frame in record["frames"]]
            assert values == pytest.approx(list(map(measure, images, sharp)))


def test_videos_show_the_frames_in_order(small_run, whole):
    job, _ = whole
    sequence = small_run.raw / "test" / "b"
    folders = (sequence / "blur", job.output / "restored", sequence / "sharp")
    kinds = [pictures(folder) for folder in folders]
    alone = list(read_video(job.output / "restored.mp4"))
    side_by_side = list(read_video(job.output / "side_by_side.mp4"))
    assert len(alone) == len(side_by_side) == 5

    def nearest(shown: np.ndarray, candidates: list[np.ndarray]) -> int:
        return int(np.argmin([np.square(shown.astype(float) - c).mean() for c in candidates]))

    for number in range(5):
        assert nearest(alone[number], kinds[1]) == number
        assert side_by_side[number].shape == (48, 192, 3)
        for place in range(3):
            shown = side_by_side[number][:, 64 * place : 64 * place + 64]
            assert nearest(shown, [kind[number] for kind in kinds]) == place


def test_frames_equal_to_the_sharp_ones_have_no_finite_psnr(model, job, whole):
    shutil.copytree(whole[0].output, job.output)
    sharp = shutil.copytree(job.output / "restored", job.output.parent / "sharp")
    record = restore(model, replace(job, sharp=sharp))
    assert json.loads((job.output / "restore.json").read_text()) == record
    first = record["frames"][0]
    assert (first["psnr"], first["ssim"]) == (None, pytest.approx(1))
    assert first["psnr_blur"] > 10


def test_spikes_and_sharp_frames_of_another_sequence_are_reported(small_run, model, job):
    notes: list[str] = []
    other = small_run.raw / "test/c"
    doubted = replace(job, spikes=other / "spike", sharp=other / "sharp")
    record = restore(model, doubted, notes.append)
    assert len(record["doubts"]) == 5
    assert record["doubtful"] == NAMES
    spikes, sharp = notes
    assert spikes.startswith("warning: spikes that do not fit")
    assert "do not show" in spikes
    assert sharp.startswith("warning: sharp frames that do not fit their blurry ones")
    assert "Compare with the sharp frames of this clip" in sharp
    assert f"{job.frames}/000001.png: does not show the scene of {other}/sharp/000001.png" in sharp


def test_sharp_frames_in_another_order_of_channels_are_reported(small_run, model, job, tmp_path):
    sharp = small_run.raw / "test/b/sharp"
    for path in sharp.iterdir():
        picture = read_rgb(path)
        write_png(tmp_path / "bgr" / path.name, np.ascontiguousarray(picture[..., ::-1]))
    notes: list[str] = []
    restore(model, replace(job, sharp=sharp), notes.append)
    assert notes == []
    restore(model, replace(job, sharp=tmp_path / "bgr", overwrite=True), notes.append)
    (note,) = notes
    assert note.startswith("warning: sharp frames that do not fit their blurry ones")
    assert f"{job.frames}/000001.png: not the colours of {tmp_path}/bgr/000001.png" in note
    assert "red and blue are exchanged in one of them" in note


def test_spikes_of_another_sequence_give_no_metrics(small_run, model, job):
    fitting = restore(model, replace(job, output=job.output.with_name("fitting")))
    assert fitting["doubts"] == []
    assert {"reblur", "agreement"} <= fitting["frames"][0].keys()
    doubted = replace(job, spikes=small_run.raw / "test/c/spike")
    for _ in range(2):  # frames that are there already are doubted, too
        record = restore(model, doubted)
        assert len(record["doubts"]) == 5
        assert all(list(frame) == ["frame"] for frame in record["frames"])
