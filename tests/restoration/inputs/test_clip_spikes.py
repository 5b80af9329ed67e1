"""Spikes in memory and simulated ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.small_run import BINS, arrays, simulated_clip
from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.images import write_png
from vrtspike.restoration.inputs.clip_frames import ArrayFrames
from vrtspike.restoration.inputs.clip_spikes import array_spikes, recorded_spikes
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.system.errors import DataError

STEPS = 56
OPTIONS = StoreOptions(bins=BINS)


def test_simulated_spikes_follow_the_frames(tmp_path):
    levels = (40, 120, 200)
    for number, level in enumerate(levels):
        write_png(tmp_path / f"{number}.png", np.full((16, 16, 3), level, np.uint8))
    source = simulated_clip(tmp_path)
    window = source.read(slice(0, 3))
    assert window.spikes.counts.numpy().shape == (3, BINS, 8, 8)
    # Each frame stands in the middle of its 88 steps, and its bins are laid about it.
    assert window.spikes.bin_steps.numpy().tolist() == [[38, 6, 6, 38]] * 3
    rates = window.spikes.counts.numpy().mean(axis=(2, 3)) / window.spikes.bin_steps.numpy()
    # Its first bin: 38 of the 44 steps in which it rises from 80, half-way from the first, to 120.
    assert rates[1, 0] == pytest.approx((80 + 40 * 19 / 44) / 255 / 2, abs=0.01)
    # The threshold that spikes are simulated with.
    assert source.gain() == pytest.approx(2, rel=0.05)
    assert rates[0, 0] == pytest.approx(40 / 255 / 2, abs=0.01)
    assert rates[2, -1] == pytest.approx(200 / 255 / 2, abs=0.01)


def test_arrays_match_the_store(stored, sequence, tmp_path, monkeypatch):
    frames, spikes = arrays(sequence)
    expected = stored.read(slice(1, 4))
    whole = np.concatenate(spikes)
    every = [Exposure(first, first + STEPS, first + 24) for first in range(0, len(whole), STEPS)]
    for table, exposures in (
        *((spikes, SPK_GOPRO), (whole, SPK_GOPRO), (np.stack(spikes), SPK_GOPRO)),
        *((whole, every), (spikes, every[:1] * 5)),
    ):
        pictures = ArrayFrames(frames)
        source = InputClip(pictures, array_spikes(pictures, table, exposures), OPTIONS)
        assert (source.ratio, source.size, source.gain()) == (2, stored.size, stored.gain())
        window = source.read(slice(1, 4))
        np.testing.assert_array_equal(window.blur, expected.blur)
        np.testing.assert_array_equal(window.spikes.counts, expected.spikes.counts)
        np.testing.assert_array_equal(
            window.spikes.bin_steps.numpy(), expected.spikes.bin_steps.numpy()
        )
    spikes = array_spikes(pictures, whole, every)
    wide = InputClip(pictures, spikes, StoreOptions(bins=BINS, context=8)).read(slice(0, 2))
    # Nothing was recorded before the first exposure.
    assert wide.spikes.bin_steps.numpy().sum(axis=1).tolist() == [STEPS + 8, STEPS + 16]
    total = wide.spikes.counts.numpy()[1].sum(axis=0)
    np.testing.assert_array_equal(total, whole[STEPS - 8 : 2 * STEPS + 8].sum(axis=0))
    # Frames in memory lie beside no table.
    (tmp_path / "exposures.csv").touch()
    monkeypatch.chdir(tmp_path)
    assert len(recorded_spikes(pictures, sequence / "spike").files) == len(frames)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts[:4], "found 4 arrays .* expected one for each of the 5 frames"),
        (lambda parts: np.concatenate(parts)[1:], "arrays of 279 steps .* a multiple of 5 steps"),
        (lambda parts: [*parts[:4], parts[4].tolist()], r"\(int64 .*, uint8 \(24, 32\)\)"),
        (lambda parts: [*parts[:4], parts[4] * 2], r"found 5 arrays .* uint8 \(S, h, w\) of 0 and"),
        (lambda parts: [*parts[:4], parts[4][:, 1:]], r"\(uint8 \(23, 32\), .* one sensor"),
        (lambda parts: [part[:, :, 1:] for part in parts], "sensor size 24 x 31 does not fit"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(sequence, change, message):
    frames, spikes = arrays(sequence)
    with pytest.raises(DataError, match=message):
        array_spikes(ArrayFrames(frames), change(spikes))


@pytest.mark.parametrize(
    ("exposures", "message"),
    [
        (LAYOUTS["stream"], r"nothing says when the shutter was open \(the layout stream"),
        (LAYOUTS["s_sdm"], r"found 56 steps, expected 137"),
        ([Exposure(0, 56, 24)] * 4, "expected one for each of the 5 frames"),
        ([Exposure(0, 57, 24)] * 5, r"found \[.*stop=57.*, expected .* within the steps of its"),
    ],
)
def test_exposures_of_arrays_that_do_not_fit_are_refused(sequence, exposures, message):
    frames, spikes = arrays(sequence)
    with pytest.raises(DataError, match=message):
        array_spikes(ArrayFrames(frames), spikes, exposures)
