"""Clips of blurry frames and spikes."""

from __future__ import annotations

import av
import numpy as np
import pytest

from tests.helpers.small_run import recorded_clip, simulated_clip
from vrtspike.data.raw.spikes import write_spikes
from vrtspike.system.errors import DataError

STEPS = 56


def test_a_folder_matches_the_store(stored, sequence):
    folder = recorded_clip(sequence / "blur", sequence / "spike")
    assert list(folder.names) == list(stored.names)
    assert folder.size == stored.size
    assert folder.ratio == stored.ratio == 2
    expected, window = stored.read(slice(0, 5)), folder.read(slice(0, 5))
    np.testing.assert_array_equal(window.blur, expected.blur)
    np.testing.assert_array_equal(window.spikes.counts, expected.spikes.counts)
    np.testing.assert_array_equal(
        window.spikes.bin_steps.numpy(), expected.spikes.bin_steps.numpy()
    )
    assert folder.gain() == stored.gain()


def test_a_folder_without_a_single_spike_has_no_gain(sequence, tmp_path):
    write_spikes(tmp_path / "spike.dat", np.zeros((5 * STEPS, 24, 32), np.uint8))
    folder = recorded_clip(sequence / "blur", tmp_path / "spike.dat")
    with pytest.raises(DataError, match=r"spike\.dat: not a single spike where"):
        folder.gain()


def test_frames_of_odd_size_are_refused_with_a_remedy(tmp_path):
    path = tmp_path / "odd.mkv"
    with av.open(str(path), "w") as video:
        stream = video.add_stream("ffv1", rate=24, width=63, height=48, pix_fmt="bgr0")
        frame = av.VideoFrame.from_ndarray(np.zeros((48, 63, 3), np.uint8), format="rgb24")
        video.mux([*stream.encode(frame), *stream.encode(None)])
    message = r"odd\.mkv: .*frames of 48 x 63.*crop the frames"
    with pytest.raises(DataError, match=message):
        simulated_clip(path)
    write_spikes(tmp_path / "spikes.dat", np.zeros((STEPS, 24, 31), np.uint8))
    with pytest.raises(DataError, match=message):
        recorded_clip(path, tmp_path / "spikes.dat")
