from __future__ import annotations

import re
import shutil
from pathlib import Path

import av
import numpy as np
import pytest

from tests.data.raw.published import PUBLISHED
from tests.data.scenes import film
from tests.small_run import BINS, SmallRun, arrays, recorded_clip
from vrtspike.data.exposure import Exposure, exposure_table
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.data.raw.spikes import read_spikes, write_spikes
from vrtspike.data.simulation.sensor import simulate_spikes, synthesize_blur
from vrtspike.data.video import video_file
from vrtspike.io.images import write_png
from vrtspike.restoration.clip_check import check_clip
from vrtspike.restoration.clip_spikes import array_spikes, simulated_spikes
from vrtspike.restoration.given_clips import GivenClip, given_clip
from vrtspike.restoration.pictures import array_pictures, open_pictures
from vrtspike.restoration.spike_files import recorded_spikes
from vrtspike.system.errors import DataError

STEPS = 56


def simulated_clip(blur: Path) -> GivenClip:
    pictures = open_pictures(blur)
    return given_clip(pictures, simulated_spikes(pictures), BINS)


def test_a_folder_gives_what_the_store_gives(stored, sequence):
    folder = recorded_clip(sequence / "blur", sequence / "spike")
    assert list(folder.names) == list(stored.names)
    assert folder.size == stored.size
    assert folder.ratio == stored.ratio == 2
    expected, window = stored.read(slice(0, 5)), folder.read(slice(0, 5))
    np.testing.assert_array_equal(window["blur"], expected["blur"])
    np.testing.assert_array_equal(window["counts"], expected["counts"])
    np.testing.assert_array_equal(window["bin_steps"], expected["bin_steps"])
    assert folder.gain() == stored.gain()


def test_a_folder_without_a_single_spike_has_no_gain(sequence, tmp_path):
    write_spikes(tmp_path / "spike.dat", np.zeros((5 * STEPS, 24, 32), np.uint8))
    folder = recorded_clip(sequence / "blur", tmp_path / "spike.dat")
    with pytest.raises(DataError, match=r"spike\.dat: not a single spike where"):
        folder.gain()


@pytest.mark.parametrize("suffix", [".dat", ".npz"])
def test_one_file_for_all_and_npz_files_give_what_the_store_gives(
    stored, sequence, tmp_path, suffix
):
    parts = [read_spikes(sequence / "spike" / f"{name}.dat", 24, 32) for name in stored.names]

    def write(path: Path, spikes: np.ndarray) -> Path:
        path.parent.mkdir(exist_ok=True)
        if suffix == ".npz":
            np.savez_compressed(path, spk=spikes)
        else:
            write_spikes(path, spikes)
        return path

    each = tmp_path / "each"
    for name, part in zip(stored.names, parts, strict=True):
        write(each / f"{name}{suffix}", part)
    for spikes in (each, write(tmp_path / f"all{suffix}", np.concatenate(parts))):
        folder = recorded_clip(sequence / "blur", spikes)
        np.testing.assert_array_equal(
            folder.read(slice(2, 4))["counts"], stored.read(slice(2, 4))["counts"]
        )
        assert check_clip(folder) == []
    cut = write(tmp_path / f"cut{suffix}", np.concatenate(parts)[:-1])
    with pytest.raises(DataError, match="279 spike frames cannot be divided evenly among 5"):
        recorded_clip(sequence / "blur", cut)
    (each / f"{stored.names[1]}.{'npz' if suffix == '.dat' else 'dat'}").touch()
    with pytest.raises(DataError, match=rf"\(1\)(.|\n)*{stored.names[1]}\.dat and \S+\.npz"):
        recorded_clip(sequence / "blur", each)


def test_exposures_at_other_steps_than_those_of_the_frames_are_doubted(tmp_path):
    PUBLISHED["one stream"].write(tmp_path)
    clip = tmp_path / "train/a"
    assert check_clip(recorded_clip(clip / "blur", clip / "spike.dat")) == []
    (clip / "exposures.csv").unlink()  # all 192 steps are then divided, with the shutter open
    (doubt,) = check_clip(recorded_clip(clip / "blur", clip / "spike.dat"))
    assert "frames are most like the spikes 16 steps from their exposures" in doubt


def test_frames_of_odd_size_are_named_with_a_remedy(tmp_path):
    path = tmp_path / "odd.mkv"
    with av.open(str(path), "w") as video:
        stream = video.add_stream("ffv1", rate=24, width=63, height=48, pix_fmt="bgr0")
        frame = av.VideoFrame.from_ndarray(np.zeros((48, 63, 3), np.uint8), format="rgb24")
        video.mux([*stream.encode(frame), *stream.encode(None)])
    told = r"odd\.mkv: .*frames of 48 x 63.*crop the frames"
    with pytest.raises(DataError, match=told):
        simulated_clip(path)
    write_spikes(tmp_path / "spikes.dat", np.zeros((STEPS, 24, 31), np.uint8))
    with pytest.raises(DataError, match=told):
        recorded_clip(path, tmp_path / "spikes.dat")


def test_simulated_spikes_follow_the_frames(tmp_path):
    levels = (40, 120, 200)
    for number, level in enumerate(levels):
        write_png(tmp_path / f"{number}.png", np.full((16, 16, 3), level, np.uint8))
    source = simulated_clip(tmp_path)
    window = source.read(slice(0, 3))
    assert window["counts"].shape == (3, BINS, 8, 8)
    # Each frame stands in the middle of its 88 steps, and its bins are laid about it.
    assert window["bin_steps"].tolist() == [[38, 6, 6, 38]] * 3
    rates = window["counts"].mean(axis=(2, 3)) / window["bin_steps"]
    # Its first bin: 38 of the 44 steps in which it rises from 80, half-way from the first, to 120.
    assert rates[1, 0] == pytest.approx((80 + 40 * 19 / 44) / 255 / 2, abs=0.01)
    # The threshold that spikes are simulated with.
    assert source.gain() == pytest.approx(2, rel=0.05)
    assert rates[0, 0] == pytest.approx(40 / 255 / 2, abs=0.01)
    assert rates[2, -1] == pytest.approx(200 / 255 / 2, abs=0.01)


def test_exposures_of_a_folder_keep_their_own_steps(tmp_path):
    rng = np.random.default_rng(2)
    spikes = [rng.integers(0, 2, (steps, 8, 8), dtype=np.uint8) for steps in (STEPS, 88)]
    for name, part in zip("12", spikes, strict=True):
        write_png(tmp_path / "blur" / f"{name}.png", np.full((16, 16, 3), 90, np.uint8))
        write_spikes(tmp_path / "spike" / f"{name}.dat", part)
    folder = recorded_clip(tmp_path / "blur", tmp_path / "spike")
    window = folder.read(slice(0, 2))
    assert window["bin_steps"].tolist() == [[21, 3, 4, 28], [35, 5, 6, 42]]
    np.testing.assert_array_equal(window["counts"][1, 3], spikes[1][46:].sum(axis=0))
    rates = np.stack([part.mean(axis=0) for part in spikes])
    gray = 90 / 255
    assert folder.gain() == pytest.approx(gray * rates.sum() / (rates**2).sum())


def test_a_single_step_is_not_compared_with_its_frame(tmp_path):
    rng = np.random.default_rng(2)
    frame = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    write_png(tmp_path / "blur" / "1.png", frame)
    write_spikes(tmp_path / "spike" / "1.dat", rng.integers(0, 2, (1, 32, 32), dtype=np.uint8))
    with pytest.raises(DataError, match=r"1\.dat: found 1 spike frames, expected a multiple of 8"):
        recorded_clip(tmp_path / "blur", tmp_path / "spike", 1)
    table = tmp_path / "spike" / "exposures.csv"
    table.write_text(exposure_table({"1": Exposure(0, 1, 0)}))
    assert check_clip(recorded_clip(tmp_path / "blur", tmp_path / "spike", 1)) == []
    other = shutil.copy(table, tmp_path)
    with pytest.raises(DataError, match=rf"several tables of exposures: {table}, {other}; keep"):
        recorded_clip(tmp_path / "blur", tmp_path / "spike", 1)
    table.unlink()
    assert (
        recorded_clip(tmp_path / "blur", tmp_path / "spike", 1).spikes.frames[0].exposure.steps == 1
    )
    Path(other).unlink()
    write_spikes(tmp_path / "spike" / "1.dat", rng.integers(0, 2, (40, 32, 32), dtype=np.uint8))
    assert len(check_clip(recorded_clip(tmp_path / "blur", tmp_path / "spike", 1))) == 1


def test_arrays_give_what_their_files_give(stored, sequence, tmp_path, monkeypatch):
    frames, spikes = arrays(sequence)
    expected = stored.read(slice(1, 4))
    whole = np.concatenate(spikes)
    every = [Exposure(first, first + STEPS, first + 24) for first in range(0, len(whole), STEPS)]
    for given, known in (
        *((spikes, SPK_GOPRO), (whole, SPK_GOPRO), (np.stack(spikes), SPK_GOPRO)),
        *((whole, every), (spikes, every[:1] * 5)),
    ):
        pictures = array_pictures(frames)
        source = given_clip(pictures, array_spikes(pictures, given, known), BINS)
        assert (source.ratio, source.size, source.gain()) == (2, stored.size, stored.gain())
        window = source.read(slice(1, 4))
        np.testing.assert_array_equal(window["blur"], expected["blur"])
        np.testing.assert_array_equal(window["counts"], expected["counts"])
        np.testing.assert_array_equal(window["bin_steps"], expected["bin_steps"])
    spikes = array_spikes(pictures, whole, every)
    wide = given_clip(pictures, spikes, BINS, context=8).read(slice(0, 2))
    # Nothing was recorded before the first exposure.
    assert wide["bin_steps"].sum(axis=1).tolist() == [STEPS + 8, STEPS + 16]
    total = wide["counts"][1].sum(axis=0)
    np.testing.assert_array_equal(total, whole[STEPS - 8 : 2 * STEPS + 8].sum(axis=0))
    # Frames in memory lie beside no table.
    (tmp_path / "exposures.csv").touch()
    monkeypatch.chdir(tmp_path)
    assert len(recorded_spikes(pictures, sequence / "spike").files) == len(frames)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda parts: parts[:4], "found 4 arrays .* expected one for each of the 5 frames"),
        (lambda parts: np.concatenate(parts)[1:], "arrays of 279 steps .* a multiple of 5 steps"),
        (lambda parts: [*parts[:4], parts[4].tolist()], r"\(int64 .*, uint8 \(24, 32\)\)"),
        (lambda parts: [*parts[:4], parts[4] * 2], r"found 5 arrays .* uint8 \(S, h, w\) of 0 and"),
        (lambda parts: [*parts[:4], parts[4][:, 1:]], r"\(uint8 \(23, 32\), .* one sensor"),
        (lambda parts: [part[:, :, 1:] for part in parts], "sensor size 24 x 31 does not fit"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(sequence, change, told):
    frames, spikes = arrays(sequence)
    with pytest.raises(DataError, match=told):
        array_spikes(array_pictures(frames), change(spikes))


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (LAYOUTS["stream"], r"nothing says when the shutter was open \(the layout stream"),
        (LAYOUTS["s_sdm"], r"found 56 spike frames, expected 137"),
        ([Exposure(0, 56, 24)] * 4, "expected one for each of the 5 frames"),
        ([Exposure(0, 57, 24)] * 5, r"found \[.*stop=57.*, expected .* within the steps of its"),
    ],
)
def test_exposures_of_arrays_that_do_not_fit_are_refused(sequence, known, told):
    frames, spikes = arrays(sequence)
    with pytest.raises(DataError, match=told):
        array_spikes(array_pictures(frames), spikes, known)


def test_the_frames_of_a_video_have_the_spikes_of_their_numbers(stored, sequence, tmp_path):
    path = tmp_path / "blur.mp4"
    frames, _ = arrays(sequence)
    with video_file(path) as append:
        for frame in frames:
            append([frame])
    source = recorded_clip(path, sequence / "spike")
    assert list(source.names) == ["000001", "000002", "000003", "000004", "000005"]
    window = source.read(slice(2, 4))
    np.testing.assert_array_equal(window["counts"], stored.read(slice(2, 4))["counts"])
    assert np.abs(window["blur"].astype(int) - frames[2:4]).mean() < 6
    assert source.gain() == pytest.approx(stored.gain(), rel=0.02)


def test_spikes_that_do_not_fit_the_frames_are_refused(sequence, tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such file or folder; expected the spikes"):
        recorded_clip(sequence / "blur", tmp_path / "nowhere")
    with pytest.raises(DataError, match="does not fit frames"):
        recorded_clip(sequence / "blur", sequence / "spike", BINS, (24, 30))
    with pytest.raises(DataError) as error:
        recorded_clip(sequence / "blur", tmp_path)
    assert all(f"{path.stem}.dat" in str(error.value) for path in (sequence / "blur").iterdir())


def test_spikes_read_with_another_sensor_size_are_doubted(tmp_path):
    video = film(1, 9, 500, 800, speed=1)
    blur, spike = tmp_path / "blur", tmp_path / "spike"
    write_png(blur / "1.png", synthesize_blur(video[:8]))
    # The last 16 columns are no picture: of both sizes it is as large.
    write_spikes(spike / "1.dat", np.pad(simulate_spikes(video)[:50], ((0, 0), (0, 0), (0, 16))))
    (tmp_path / "exposures.csv").write_text("frame,start,stop,sharp\n1,0,50,25\n")
    (doubt,) = check_clip(recorded_clip(blur, spike))
    assert "a wrong sensor size (250 x 400)" in doubt
    (tmp_path / "config.yaml").write_text("spike_h: 250\nspike_w: 416\n")
    assert check_clip(recorded_clip(blur, spike)) == []


def continuous_recording(small_run: SmallRun, folder: Path, third: str) -> GivenClip:
    """Every second frame of a recording of 280 steps, with this line for the second of the three.

    A shutter was closed between them, so that a wrong exposure need not overlap with another one.
    """
    sequence = small_run.raw / "test/b"
    shutil.copytree(sequence / "blur", folder / "blur")
    files = sorted((sequence / "spike").iterdir())
    (folder / "spike.dat").write_bytes(b"".join(path.read_bytes() for path in files))
    for name in ("000002", "000004"):
        (folder / f"blur/{name}.png").unlink()
    lines = [f"{n + 1:06d},{56 * n},{56 * n + 56},{56 * n + 24}" for n in (0, 2, 4)]
    lines[1] = f"000003,{third}"
    (folder / "exposures.csv").write_text("\n".join(["frame,start,stop,sharp", *lines]))
    return recorded_clip(folder / "blur", folder / "spike.dat")


@pytest.mark.parametrize(
    ("third", "away"),
    [("150,206,174", "4[0-4] steps earlier"), ("62,118,86", "[45][0-9] steps later")],
)
def test_a_single_wrong_line_of_a_table_is_named(small_run, tmp_path, third, away):
    (doubt,) = check_clip(continuous_recording(small_run, tmp_path, third))
    assert re.search(rf"exposures\.csv, frame 000003: found the exposure .*{away}", doubt)
    assert doubt.endswith("while other frames fit their exposures; correct its line")


def test_right_lines_of_a_table_are_not_doubted(small_run, tmp_path):
    assert check_clip(continuous_recording(small_run, tmp_path, "112,168,136")) == []
