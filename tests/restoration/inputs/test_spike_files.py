"""Spikes in files, against the store of the same sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.small_run import BINS, arrays, recorded_clip
from vrtspike.data.raw.spikes import read_spikes, write_spikes
from vrtspike.data.video import video_writer
from vrtspike.io.images import write_png
from vrtspike.restoration.checks.spike_fit import find_spike_mismatches
from vrtspike.system.errors import DataError

STEPS = 56


@pytest.mark.parametrize("suffix", [".dat", ".npz"])
def test_one_file_for_all_and_npz_files_match_the_store(stored, sequence, tmp_path, suffix):
    parts = [read_spikes(sequence / "spike" / f"{name}.dat", 24, 32) for name in stored.names]

    def write(path: Path, spikes: np.ndarray) -> Path:
        path.parent.mkdir(exist_ok=True)
        if suffix == ".npz":
            np.savez_compressed(path, spk=spikes)
        else:
            write_spikes(path, spikes)
        return path

    separate = tmp_path / "separate"
    for name, part in zip(stored.names, parts, strict=True):
        write(separate / f"{name}{suffix}", part)
    for spikes in (separate, write(tmp_path / f"all{suffix}", np.concatenate(parts))):
        folder = recorded_clip(sequence / "blur", spikes)
        np.testing.assert_array_equal(
            folder.read(slice(2, 4)).spikes.counts.numpy(),
            stored.read(slice(2, 4)).spikes.counts.numpy(),
        )
        assert find_spike_mismatches(folder) == {}
    cut = write(tmp_path / f"cut{suffix}", np.concatenate(parts)[:-1])
    with pytest.raises(DataError, match="279 steps cannot be divided evenly among 5"):
        recorded_clip(sequence / "blur", cut)
    (separate / f"{stored.names[1]}.{'npz' if suffix == '.dat' else 'dat'}").touch()
    with pytest.raises(DataError, match=rf"\(1\)(.|\n)*{stored.names[1]}\.dat and \S+\.npz"):
        recorded_clip(sequence / "blur", separate)


def test_exposures_of_a_folder_have_the_steps_of_their_files(tmp_path):
    rng = np.random.default_rng(2)
    spikes = [rng.integers(0, 2, (steps, 8, 8), dtype=np.uint8) for steps in (STEPS, 88)]
    for name, part in zip("12", spikes, strict=True):
        write_png(tmp_path / "blur" / f"{name}.png", np.full((16, 16, 3), 90, np.uint8))
        write_spikes(tmp_path / "spike" / f"{name}.dat", part)
    folder = recorded_clip(tmp_path / "blur", tmp_path / "spike")
    window = folder.read(slice(0, 2))
    assert window.spikes.bin_steps.numpy().tolist() == [[21, 3, 4, 28], [35, 5, 6, 42]]
    np.testing.assert_array_equal(window.spikes.counts[1, 3], spikes[1][46:].sum(axis=0))
    rates = np.stack([part.mean(axis=0) for part in spikes])
    gray = 90 / 255
    assert folder.gain() == pytest.approx(gray * rates.sum() / (rates**2).sum())


def test_the_frames_of_a_video_have_the_spikes_of_their_numbers(stored, sequence, tmp_path):
    path = tmp_path / "blur.mp4"
    frames, _ = arrays(sequence)
    with video_writer(path) as append:
        for frame in frames:
            append([frame])
    source = recorded_clip(path, sequence / "spike")
    assert list(source.names) == ["000001", "000002", "000003", "000004", "000005"]
    window = source.read(slice(2, 4))
    np.testing.assert_array_equal(
        window.spikes.counts.numpy(), stored.read(slice(2, 4)).spikes.counts.numpy()
    )
    assert np.abs(window.blur.numpy().astype(int) - frames[2:4]).mean() < 6
    assert source.gain() == pytest.approx(stored.gain(), rel=0.02)


def test_spikes_that_do_not_fit_the_frames_are_refused(sequence, tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such file or folder; expected the spikes"):
        recorded_clip(sequence / "blur", tmp_path / "nowhere")
    with pytest.raises(DataError, match="does not fit frames"):
        recorded_clip(sequence / "blur", sequence / "spike", BINS, (24, 30))
    with pytest.raises(DataError) as error:
        recorded_clip(sequence / "blur", tmp_path)
    assert all(f"{path.stem}.dat" in str(error.value) for path in (sequence / "blur").iterdir())
