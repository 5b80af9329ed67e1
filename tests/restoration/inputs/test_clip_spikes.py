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


def exposures_one_after_the_other(count: int) -> list[Exposure]:
    """The exposures of frames in one recording."""
    return [Exposure(first, first + STEPS, first + 24) for first in range(0, count * STEPS, STEPS)]


@pytest.mark.parametrize(
    ("spikes_of", "exposures"),
    [
        pytest.param(lambda parts: parts, SPK_GOPRO, id="one per frame"),
        pytest.param(np.concatenate, SPK_GOPRO, id="one for all"),
        pytest.param(np.stack, SPK_GOPRO, id="stacked"),
        pytest.param(np.concatenate, exposures_one_after_the_other(5), id="one for all, exposures"),
        pytest.param(lambda parts: parts, [Exposure(0, STEPS, 24)] * 5, id="one each, exposures"),
    ],
)
def test_arrays_match_the_store(stored, sequence, spikes_of, exposures):
    frames, parts = arrays(sequence)
    pictures = ArrayFrames(frames)
    source = InputClip(pictures, array_spikes(pictures, spikes_of(parts), exposures), OPTIONS)
    assert (source.ratio, source.size, source.gain()) == (2, stored.size, stored.gain())
    window, expected = source.read(slice(1, 4)), stored.read(slice(1, 4))
    np.testing.assert_array_equal(window.blur, expected.blur)
    np.testing.assert_array_equal(window.spikes.counts, expected.spikes.counts)
    np.testing.assert_array_equal(
        window.spikes.bin_steps.numpy(), expected.spikes.bin_steps.numpy()
    )


def test_context_is_taken_from_the_recording_around_an_exposure(sequence):
    frames, parts = arrays(sequence)
    pictures = ArrayFrames(frames)
    whole = np.concatenate(parts)
    spikes = array_spikes(pictures, whole, exposures_one_after_the_other(5))
    wide = InputClip(pictures, spikes, StoreOptions(bins=BINS, context=8)).read(slice(0, 2))
    # Nothing was recorded before the first exposure.
    assert wide.spikes.bin_steps.numpy().sum(axis=1).tolist() == [STEPS + 8, STEPS + 16]
    total = wide.spikes.counts.numpy()[1].sum(axis=0)
    np.testing.assert_array_equal(total, whole[STEPS - 8 : 2 * STEPS + 8].sum(axis=0))


def test_frames_in_memory_lie_beside_no_table(sequence, tmp_path, monkeypatch):
    frames, _ = arrays(sequence)
    (tmp_path / "exposures.csv").touch()
    monkeypatch.chdir(tmp_path)
    spikes = recorded_spikes(ArrayFrames(frames), sequence / "spike")
    assert len(spikes.files) == len(frames)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts[:4], "found 4 arrays .* expected one for each of the 5 frames"),
        (lambda parts: np.concatenate(parts)[1:], "arrays of 279 steps .* a multiple of 5 steps"),
        (lambda parts: [*parts[:4], parts[4].tolist()], r"\(int64 .*, uint8 \(24, 32\)\)"),
        (lambda parts: [*parts[:4], parts[4] * 2], r"found 5 arrays .* uint8 \(S, h, w\) of 0 and"),
        (lambda parts: [*parts[:4], parts[4][:, 1:]], r"\(uint8 \(23, 32\), .* one sensor"),
        (lambda parts: [part[:, :, 1:] for part in parts], "sensor size 24 x 31 does not fit"),
        (
            lambda parts: np.zeros(5, np.uint8),
            r"frame 0: found uint8 of shape \(\), expected uint8",
        ),
        (lambda parts: np.array(1, np.uint8), r"frame 0: found uint8 of shape \(\)"),
        (lambda parts: [0, 1], r"frame 0: found int64 of shape \(\), expected uint8 \(S, h, w\)"),
        (lambda parts: np.concatenate(parts)[:0], r"frame 0: found uint8 of shape \(0, 24, 32\)"),
        (
            lambda parts: [*parts[:4], parts[4][:0]],
            r"frame 4: .* \(0, 24, 32\).* at least one step",
        ),
        (
            lambda parts: [part[:, :0] for part in parts],
            r"frame 0: .* \(56, 0, 32\), .* row and col",
        ),
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
        ([Exposure(0, 56, 24)] * 4, "found 4, expected one for each of the 5 frames"),
    ],
)
def test_exposures_of_arrays_that_do_not_fit_are_refused(sequence, exposures, message):
    frames, spikes = arrays(sequence)
    with pytest.raises(DataError, match=message):
        array_spikes(ArrayFrames(frames), spikes, exposures)


@pytest.mark.parametrize(
    "exposure",
    [
        Exposure(0, STEPS + 1, 24),
        Exposure(-1, 8, 4),
        Exposure(8, 8, 8),
        Exposure(50, 8, 12),
        Exposure(0, STEPS, 100),
        Exposure(8, STEPS, 7),
        Exposure(0, STEPS, float("nan")),
        Exposure(0.0, STEPS, 28),
        Exposure(0, float(STEPS), 28),
        Exposure("0", "56", "24"),
        Exposure(0, STEPS, None),
    ],
    ids=lambda exposure: "-".join(map(str, exposure)),
)
def test_an_exposure_that_the_spikes_do_not_contain_is_named(sequence, exposure):
    frames, spikes = arrays(sequence)
    exposures = [Exposure(0, STEPS, 24), exposure, *[Exposure(0, STEPS, 24)] * 3]
    with pytest.raises(DataError) as error:
        array_spikes(ArrayFrames(frames), spikes, exposures)
    title, *faults, advice = str(error.value).splitlines()
    assert title == "exposures that the spikes of their frames do not contain (1):"
    assert faults == [f"  - exposures[1]: found {exposure}; the spikes have 56 steps"]
    assert "whole numbers 0 <= start < stop and a number sharp from start to stop" in advice


def test_exposures_of_numpy_numbers_reach_to_the_ends_of_the_spikes(sequence):
    frames, spikes = arrays(sequence)
    exposures = [Exposure(np.int64(0), np.int32(STEPS), np.float32(24))] * 4
    exposures.append(Exposure(0, 1, 1))
    taken = array_spikes(ArrayFrames(frames), spikes, exposures).frames
    assert [frame.exposure.steps for frame in taken] == [STEPS] * 4 + [1]
