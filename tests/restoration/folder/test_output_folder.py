"""Frames, videos and the record of a clip restored into a folder."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from fractions import Fraction

import numpy as np
import pytest

from tests.data.video.samples import sound_packets, write_sample
from tests.restoration.folder_runs import NAMES, pictures, restore
from vrtspike.data.video import inspect_video, read_video, video_writer
from vrtspike.restoration.folder.output_folder import NO_SPIKES
from vrtspike.restoration.inference.tiling import Tiling
from vrtspike.restoration.inputs.clip_spikes import SIMULATED
from vrtspike.restoration.tiled_inference import torch_tile_model
from vrtspike.system.errors import ConfigError, DataError


def test_the_record_of_a_call(whole):
    job, record = whole
    assert json.loads((job.output / "restore.json").read_text()) == record
    expected = {
        "precision": "float32", "device": "cpu", "size": [48, 64],
        "tiling": asdict(Tiling(32, 8, 3, 1)),
        # 2 x 3 tiles of 32 x 32 for 48 x 64 pixels, 2 windows of 3 for 5 frames.
        "recomputation": pytest.approx(6 * 32 * 32 / (48 * 64) * 6 / 5),
        "paths": {"input": str(job.frames), "spikes": str(job.spikes), "sharp": str(job.sharp)},
    }  # fmt: skip
    assert {key: record[key] for key in expected} == expected
    assert record["model"]["fingerprint"] == "0123456789ab"
    assert (record["spikes"]["from"], record["spikes"]["layout"]) == ("recorded", "spk_gopro")
    assert record["seconds_per_frame"] > 0
    assert {path.name for path in job.output.iterdir()} == {
        "restored", "restored.mp4", "side_by_side.mp4", "restore.json",
    }  # fmt: skip


def test_a_stopped_call_is_continued_with_the_same_result(model, job, whole):
    finished = pictures(whole[0].output / "restored")
    job = replace(job, tile=32)

    def stop(done, total):
        if done == 8:  # in the second window of six tiles
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(model, job, show=stop)
    kept = sorted((job.output / "restored").iterdir())
    assert [path.stem for path in kept] == NAMES[:2]
    before = [path.stat().st_mtime_ns for path in kept]
    notes, tiles = [], []
    restore(model, job, notes.append, lambda *done: tiles.append(done))
    assert notes == ["2 of 5 frames are there already, restored before"]
    # The third frame belongs to both windows.
    assert (12, 12) in tiles
    np.testing.assert_array_equal(pictures(job.output / "restored"), finished)
    assert [path.stat().st_mtime_ns for path in kept] == before
    # A frame that is lost is restored again, alone, and in the same tiles.
    kept[0].unlink()
    tiles.clear()
    with pytest.raises(ConfigError, match="found frames restored with tile 32"):
        restore(model, replace(job, tile=16))
    restore(model, replace(job, tile=None), show=lambda *done: tiles.append(done))
    assert {total for _, total in tiles} == {6, 5}  # tiles, frames
    np.testing.assert_array_equal(pictures(job.output / "restored"), finished)
    assert kept[1].stat().st_mtime_ns == before[1]


def test_restored_frames_are_used_for_missing_results(model, job, whole):
    shutil.copytree(whole[0].output, job.output)
    (job.output / "restored.mp4").unlink()
    # No frame is restored: the model need not be called.
    record = restore(replace(model, tile_model=None), replace(job, video=True))
    assert len(list(read_video(job.output / "restored.mp4"))) == 5
    assert record["seconds_per_frame"] == whole[1]["seconds_per_frame"]
    # Without sharp frames, what was recorded tells how frames came out.
    by_spikes = {"reblur_blur", "reblur", "agreement_blur", "agreement", "agreement_outside"}
    assert set(record["frames"][0]) == {"frame", *by_spikes}
    # With sharp frames, both do.
    assert set(whole[1]["frames"][0]) == {
        *("frame", "psnr_blur", "psnr", "ssim_blur", "ssim"), *by_spikes,
    }  # fmt: skip


def test_restored_videos_keep_time_stamps_pixel_shape_and_sound(small_run, model, job, tmp_path):
    path = tmp_path / "blur.mkv"
    stamps = (0, 40, 500, 540, 1200)
    write_sample(path, stamps, shape=Fraction(4, 3), sound=["aac", "wavpack"])
    changed = replace(job, frames=path, spikes=None, simulate_spikes=True, video=True)
    notes: list[str] = []
    restore(model, replace(changed, side_by_side=True), notes.append)
    for name in ("restored.mp4", "side_by_side.mp4"):
        info = inspect_video(job.output / name)
        assert [stamp * info.time_base for stamp in info.timestamps[:-1]] == [
            Fraction(stamp, 1000) for stamp in stamps
        ]
        assert info.sample_aspect_ratio == Fraction(4, 3)
        assert sound_packets(job.output / name) == sound_packets(path)[:1]
    assert notes[0].startswith(f"warning: {path}: streams that the restored videos lack (1):")
    assert "\n  - stream 2: audio, wavpack\n" in notes[0]


def test_a_video_without_time_stamps_is_noted(model, job, tmp_path):
    path = tmp_path / "blur.h264"
    write_sample(path)
    changed = replace(job, frames=path, spikes=None, simulate_spikes=True, video=True)
    notes: list[str] = []
    restore(model, changed, notes.append)
    assert notes == [
        f"warning: {path}: has no usable time stamps; the restored videos have 25 frames per second"
    ]


@pytest.mark.parametrize("fault", ["interlaced", "cut"])
def test_interlaced_and_cut_videos_are_refused(model, job, tmp_path, fault):
    path = tmp_path / "blur.mkv"
    write_sample(path, interlaced=fault == "interlaced")
    if fault == "cut":
        contents = path.read_bytes()
        path.write_bytes(contents[: len(contents) // 2])
    message = {
        "interlaced": "frame 1 is interlaced",
        "cut": "damaged after 3 frames .* about 8 frames",
    }
    with pytest.raises(DataError, match=message[fault]):
        restore(model, replace(job, frames=path, spikes=None, simulate_spikes=True))
    assert not job.output.exists()


def test_a_video_with_simulated_spikes(small_run, model, job, tmp_path):
    path = tmp_path / "blur.mp4"
    with video_writer(path, fps=Fraction(30000, 1001)) as append:
        for frame in pictures(job.frames):
            append([frame])
    simulated = replace(job, frames=path, spikes=None, simulate_spikes=True, side_by_side=True)
    record = restore(model, simulated)
    assert record["spikes"]["from"] == SIMULATED
    assert [frame["frame"] for frame in record["frames"]] == NAMES
    frames = list(read_video(job.output / "side_by_side.mp4"))
    assert len(frames) == 5
    assert frames[0].shape == (48, 128, 3)
    assert inspect_video(job.output / "side_by_side.mp4").rate == Fraction(30000, 1001)
    # The same call again finds its frames.
    notes: list[str] = []
    restore(model, simulated, notes.append)
    assert notes == ["5 of 5 frames are there already, restored before"]


def test_the_record_of_a_model_without_spikes(model, job):
    def same(blur, voxels):
        assert voxels is None
        return blur

    tree = model.settings.model_dump(mode="json")
    tree["MODEL"]["USE_SPIKE"] = False
    run = replace(model.run, settings=type(model.settings).model_validate(tree))
    plain = replace(model, run=run, tile_model=torch_tile_model(same, None, model.device))
    record = restore(plain, replace(job, spikes=None))
    assert record["spikes"]["from"] == NO_SPIKES
    np.testing.assert_array_equal(pictures(job.output / "restored"), pictures(job.frames))
