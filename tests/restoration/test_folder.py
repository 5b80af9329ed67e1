from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.data.video.samples import sound_packets, write_sample
from tests.deblurring.reference_metrics import decibels, similarity
from vrtspike.data.video import inspect_video, read_video, video_file
from vrtspike.io.images import read_picture, read_rgb, write_png
from vrtspike.restoration.clip_spikes import SIMULATED
from vrtspike.restoration.folder import NO_SPIKES, restore_into
from vrtspike.restoration.given_clips import open_clip
from vrtspike.restoration.request import Request, open_request
from vrtspike.restoration.restore import torch_compute
from vrtspike.restoration.tiling import Tiling
from vrtspike.restoration.trained import TrainedModel, load
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
    with pytest.raises(RunError, match=r"restore\.json: damaged.*give another folder"):
        restore(model, asked)
    (asked.output / "restore.json").unlink()
    for overwrite, told in ((False, "restored by something else"), (True, "does not name")):
        with pytest.raises(ConfigError, match=rf"(?s){told}.*give another folder"):
            restore(model, replace(asked, overwrite=overwrite))
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
    (asked.output / "notes.txt").write_text("mine")
    (asked.output / "restored" / "000009.png").write_text("mine")
    (asked.output / "restored" / "raw").mkdir()
    (asked.output / "restored" / "raw" / "000001.png").write_text("mine")
    notes: list[str] = []
    record = restore(model, replace(asked, tile=40, overwrite=True), notes.append)
    assert record["tiling"]["size"] == 40
    assert {path.name for path in asked.output.iterdir()} == {
        "restored", "restore.json", "notes.txt",
    }  # fmt: skip
    frames = [asked.output / "restored" / f"{name}.png" for name in NAMES]
    assert {path.name for path in (asked.output / "restored").iterdir()} == {
        *(path.name for path in frames), "000009.png", "raw",
    }  # fmt: skip
    for path in ("notes.txt", "restored/000009.png", "restored/raw/000001.png"):
        assert (asked.output / path).read_text() == "mine"
    assert notes[0].startswith(f"warning: {asked.output}: files that the record does not name stay")
    for name in ("notes.txt", "restored/000009.png", "restored/raw"):
        assert f"\n  - {name}\n" in notes[0]
    assert record["written"] == [f"restored/{name}.png" for name in NAMES]


def test_results_that_a_later_call_does_not_write_stay_named(model, asked, whole):
    shutil.copytree(whole[0].output, asked.output)
    record = restore(model, asked)
    assert {"restored.mp4", "side_by_side.mp4"} <= set(record["written"])
    (asked.output / "restored.mp4").unlink()
    (asked.output / "restored.mp4").symlink_to("nowhere")
    restore(model, replace(asked, overwrite=True))
    assert {path.name for path in asked.output.iterdir()} == {"restored", "restore.json"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_no_file_of_others_is_written_over(model, asked, overwrite):
    asked.output.mkdir()
    (asked.output / "restored.mp4").write_text("mine")
    with pytest.raises(ConfigError, match=r"does not name \(1\):\n  - restored\.mp4\nMove them"):
        restore(model, replace(asked, video=True, overwrite=overwrite))
    restore(model, replace(asked, overwrite=overwrite))
    assert (asked.output / "restored.mp4").read_text() == "mine"
    (asked.output / "restore.json").write_text('{"title": "mine"}')
    with pytest.raises(ConfigError, match=r"restore\.json: is no record of restored frames"):
        restore(model, replace(asked, overwrite=overwrite))
    assert (asked.output / "restore.json").read_text() == '{"title": "mine"}'


def test_a_record_removes_nothing_but_results(model, asked, whole, tmp_path):
    shutil.copytree(whole[0].output, asked.output)
    (tmp_path / "precious.png").touch()
    path = asked.output / "restore.json"
    record = json.loads(path.read_text())
    record["written"] += ["../precious.png", "restored/../../precious.png", "restore.json/.."]
    path.write_text(json.dumps(record))
    restore(model, replace(asked, overwrite=True))
    assert (tmp_path / "precious.png").exists()


def test_records_of_older_versions_name_their_results(model, asked, whole):
    shutil.copytree(whole[0].output, asked.output)
    path = asked.output / "restore.json"
    record = json.loads(path.read_text()) | {"schema": 5}
    del record["written"]
    path.write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=r"with other schema; .*--overwrite"):
        restore(model, asked)
    notes: list[str] = []
    restore(model, replace(asked, overwrite=True), notes.append)
    assert notes == []
    assert not (asked.output / "restored.mp4").exists()


def test_restored_videos_keep_what_a_video_has(small_run, model, asked, tmp_path):
    path = tmp_path / "blur.mkv"
    stamps = (0, 40, 500, 540, 1200)
    write_sample(path, stamps, shape=Fraction(4, 3), sound=["aac", "wavpack"])
    changed = replace(asked, frames=path, spikes=None, simulate_spikes=True, video=True)
    notes: list[str] = []
    restore(model, replace(changed, side_by_side=True), notes.append)
    for name in ("restored.mp4", "side_by_side.mp4"):
        info = inspect_video(asked.output / name)
        assert [stamp * info.tick for stamp in info.stamps[:-1]] == [
            Fraction(stamp, 1000) for stamp in stamps
        ]
        assert info.pixel_shape == Fraction(4, 3)
        assert sound_packets(asked.output / name) == sound_packets(path)[:1]
    assert notes[0].startswith(f"warning: {path}: streams that the restored videos lack (1):")
    assert "\n  - stream 2: audio, wavpack\n" in notes[0]


def test_a_video_without_time_stamps_is_told(model, asked, tmp_path):
    path = tmp_path / "blur.h264"
    write_sample(path)
    changed = replace(asked, frames=path, spikes=None, simulate_spikes=True, video=True)
    notes: list[str] = []
    restore(model, changed, notes.append)
    assert notes == [
        f"warning: {path}: has no usable time stamps; the restored videos have 25 frames per second"
    ]


@pytest.mark.parametrize("fault", ["interlaced", "cut"])
def test_a_video_that_would_come_out_wrong_is_refused(model, asked, tmp_path, fault):
    path = tmp_path / "blur.mkv"
    write_sample(path, interlaced=fault == "interlaced")
    if fault == "cut":
        contents = path.read_bytes()
        path.write_bytes(contents[: len(contents) // 2])
    told = {
        "interlaced": "frame 1 is interlaced",
        "cut": "damaged after 3 frames .* about 8 frames",
    }
    with pytest.raises(DataError, match=told[fault]):
        restore(model, replace(asked, frames=path, spikes=None, simulate_spikes=True))
    assert not asked.output.exists()


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
    assert inspect_video(asked.output / "side_by_side.mp4").rate == Fraction(30000, 1001)
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
    doubted = replace(asked, spikes=other / "spike", sharp=other / "sharp")
    record = restore(model, doubted, notes.append)
    assert len(record["doubts"]) == 5
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


def test_spikes_of_another_sequence_give_no_figures(small_run, model, asked):
    fitting = restore(model, replace(asked, output=asked.output.with_name("fitting")))
    assert fitting["doubts"] == []
    assert {"reblur", "agreement"} <= fitting["frames"][0].keys()
    doubted = replace(asked, spikes=small_run.raw / "test/c/spike")
    for _ in range(2):  # frames that are there already are doubted, too
        record = restore(model, doubted)
        assert len(record["doubts"]) == 5
        assert all(list(frame) == ["frame"] for frame in record["frames"])


def stored_frames(folder: Path, convert) -> Path:
    """The frames of a folder, each changed, in a folder beside the results."""
    for path in sorted(folder.iterdir()):
        write_png(folder.parent / "changed" / path.name, convert(read_rgb(path)))
    return folder.parent / "changed"


@pytest.fixture
def sequence_copy(asked, tmp_path):
    return Path(shutil.copytree(asked.frames, tmp_path / "blur"))


def test_frames_of_16_bits_are_restored_with_16(model, asked, whole, sequence_copy):
    asked = replace(asked, tile=32)
    fine = stored_frames(sequence_copy, lambda image: image.astype(np.uint16) * 257)
    notes: list[str] = []
    restore(model, replace(asked, frames=fine, sharp=fine), notes.append)
    expected = pictures(whole[0].output / "restored")
    restored = [read_picture(path).rgb for path in sorted((asked.output / "restored").iterdir())]
    assert {image.dtype for image in restored} == {np.dtype(np.uint16)}
    # The same values as of 8 bits, which are these rounded: half a level of 257.
    np.testing.assert_allclose(np.stack(restored) / 257, expected, atol=0.502)
    assert np.any(np.stack(restored) % 257)
    assert len([note for note in notes if "16-bit values" in note]) == 1


def test_bits_below_the_eighth_reach_the_model(model, asked, sequence_copy):
    asked, low = (
        replace(asked, tile=32),
        stored_frames(sequence_copy, lambda image: image.astype(np.uint16) * 257),
    )
    restore(model, replace(asked, frames=low))
    high = Path(shutil.copytree(low, low.with_name("higher")))
    for path in high.iterdir():
        write_png(
            path, np.minimum(read_picture(path).rgb.astype(int) + 100, 65535).astype(np.uint16)
        )
    output = asked.output.with_name("higher_out")
    restore(model, replace(asked, frames=high, output=output))
    one, other = (
        read_picture(folder / "restored/000003.png").rgb.astype(int)
        for folder in (asked.output, output)
    )
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("convert", "told"),
    [
        (lambda image: image[:, :, 1], "grey is taken as RGB of three equal channels"),
        (lambda image: np.dstack([image, image[:, :, 0]]), "transparency is"),
    ],
    ids=["grey", "RGBA"],
)
def test_grey_and_transparent_frames_are_restored_and_that_is_said_once(
    model, asked, sequence_copy, convert, told
):
    changed = sequence_copy.parent / "changed"
    changed.mkdir()
    for path in sequence_copy.iterdir():
        image = convert(read_rgb(path))
        order = [2, 1, 0, 3]
        (changed / path.name).write_bytes(
            cv2.imencode(".png", image[..., order] if image.ndim == 3 else image)[1]
        )
    notes: list[str] = []
    restore(model, replace(asked, frames=changed, tile=32), notes.append)
    (note,) = notes
    assert told in note
    restored = pictures(asked.output / "restored")
    assert len(restored) == 5
