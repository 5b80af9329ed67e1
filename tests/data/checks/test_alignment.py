"""The alignment of spikes and frames."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.scenes import film, packed
from vrtspike.data.checks.alignment import (
    Alignment,
    align,
    center_tolerance,
    correlation_curve,
    mismatch,
)
from vrtspike.data.checks.similarity import band_pass, correlation, find_peak
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.io.images import read_gray, shrink
from vrtspike.system.errors import DataError


def moving(seed, count, height=128, width=192, speed=3):
    """Grey frames of a moving texture."""
    return [frame[..., 0] for frame in film(seed, count, height, width, speed)]


@pytest.mark.parametrize("exposure", [3, 7, 11, 13])
def test_centre_is_the_middle_frame(exposure):
    frames = moving(0, exposure + 1)
    spikes = simulate_spikes(frames)[: 8 * exposure]
    match = align(packed(spikes), frames[exposure // 2])
    assert match.center == pytest.approx(4 * (exposure - 1), abs=1.5)
    assert match.correlation > 0.8
    assert align(spikes, frames[exposure // 2]) == match  # as an array of 0 and 1


def test_silent_spikes_do_not_match_a_textured_frame():
    match = align(packed(np.zeros((88, 64, 96), np.uint8)), moving(0, 1)[0])
    assert (match.correlation, match.matches) == (0.0, False)


@pytest.mark.parametrize("size", [(128, 192), (128, 182), (400, 400)])
@pytest.mark.parametrize("speed", [2, 12, 40])
def test_a_few_windows_suffice(size, speed):
    frames = moving(7, 12, *size, speed)
    spikes = packed(simulate_spikes(frames)[:88])
    sharp = band_pass(shrink(frames[5], *spikes.shape[1:]) / np.float32(255))
    for blurry, window in ((False, 9), (True, 88)):
        means = [sum(spikes[first + n] for n in range(window)) for first in range(89 - window)]
        curve = [correlation(band_pass(mean.astype(np.float32)), sharp) for mean in means]
        match = align(spikes, frames[5], blurry=blurry)
        assert match.correlation == pytest.approx(max(curve), abs=3e-3)
        assert match.distinction == pytest.approx(max(curve) - min(curve), abs=0.05)
        peak = find_peak(np.array(curve))[0]
        assert match.center == pytest.approx(peak + (window - 1) / 2, abs=0.5)
        if not blurry:
            centers, correlations = correlation_curve(spikes, frames[5])
            np.testing.assert_allclose(correlations, curve, atol=1e-5)
            np.testing.assert_array_equal(centers, np.arange(80) + 4)


def reversed_bits(spikes):
    """Spikes packed as numpy.packbits does by default."""
    return np.packbits(
        np.unpackbits(PackedSpikes.pack(spikes).rows, axis=2, bitorder="little"), axis=2
    )


def reordered(spikes, mask):
    """Spikes with the columns of each byte in another order."""
    return packed(spikes[:, :, np.arange(spikes.shape[2]) ^ mask])


MISREADINGS = {
    "with the bits of each byte reversed": lambda s: PackedSpikes(reversed_bits(s), s.shape[2]),
    "with the halves of each byte (nibbles) exchanged": lambda s: reordered(s, 4),
    "with the bits of each half byte reversed": lambda s: reordered(s, 3),
    "mirrored from right to left": lambda s: packed(s[:, :, ::-1]),
    "upside down": lambda s: packed(s[:, ::-1]),
    "turned by 180 degrees": lambda s: packed(s[:, ::-1, ::-1]),
    "moved by -5 rows down and 0 columns to the right": lambda s: packed(np.roll(s, 5, 1)),
}


@pytest.mark.parametrize("blurry", [False, True])
@pytest.mark.parametrize("order", MISREADINGS)
def test_the_order_of_misread_spikes_is_named(order, blurry):
    frames = moving(3, 12, speed=1)
    spikes = simulate_spikes(frames)[:88].view(np.uint8)
    frame = np.mean(frames[:11], axis=0).astype(np.uint8) if blurry else frames[5]
    sound = align(packed(spikes), frame, blurry=blurry)
    assert sound.matches
    assert sound.better == ""
    match = align(MISREADINGS[order](spikes), frame, blurry=blurry)
    assert (match.matches, match.locates) == (False, False)
    fault = mismatch(match, "a.dat", "b.png", (64, 96))
    assert fault is not None
    assert fault.startswith(f"a.dat: the spikes would fit b.png better {order}")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "size"),
    [("spk_gopro/000226", (360, 640)), ("sreds/200_part1_key_id151", (250, 400))],
)
@pytest.mark.parametrize(
    ("mask", "how"),
    [(0, ""), (3, "bits of each half byte"), (4, "halves of each byte"), (7, "bits of each byte")],
)
def test_real_files_with_the_bits_of_bytes_in_another_order(shared, name, size, mask, how):
    spikes = read_spikes(shared / f"samples/{name}.dat", *size)
    match = align(reordered(spikes, mask), read_gray(shared / f"samples/{name}.png"))
    assert match.matches == (mask == 0)
    assert match.better.startswith(f"with the {how}" if how else "")
    assert bool(match.better) == bool(how)


def test_shapes_that_do_not_belong_together_are_refused():
    spikes = np.zeros((88, 40, 60), np.uint8)
    for shape in [(60, 40), (80, 121), (80, 180)]:
        with pytest.raises(DataError, match="sensor size"):
            align(packed(spikes), np.zeros(shape, np.uint8))


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "size", "center"),
    [("spk_gopro/000226", (360, 640), 40), ("sreds/200_part1_key_id151", (250, 400), 150)],
)
def test_real_exposures_are_located_and_show_no_other_frame(shared, name, size, center):
    samples = shared / "samples"
    spikes = packed(read_spikes(samples / f"{name}.dat", *size))
    sharp = read_gray(samples / f"{name}.png")
    match = align(spikes, sharp)
    assert match.center == pytest.approx(center, rel=0.025)
    assert match.correlation > 0.9
    assert match.better == ""
    other = read_gray(samples / "gopro_test/GOPR0384_11_00/sharp/000001.png")
    others = [sharp[::-1], *([other] if name.startswith("spk_gopro") else [])]
    assert all(align(spikes, frame).correlation < 0.1 for frame in others)


def test_the_centre_is_that_of_the_window():
    frame, other = (moving(seed, 1)[0][:96, :96] for seed in (5, 6))
    spikes = np.stack([other[::2, ::2] > 127] * 60)
    # Windows hold 9 steps: only that of steps 20 to 28 shows nothing but the frame.
    spikes[20:29] = frame[::2, ::2] > 127
    assert align(packed(spikes), frame).center == pytest.approx(24, abs=0.2)


def alignment(**values):
    """An alignment that is clear but for the given values."""
    clear = {"center": 1.0, "correlation": 0.9, "distinction": 0.3}
    return Alignment(**{**clear, "assessable": True, **values})


def test_thresholds_of_a_verdict():
    for value, fits in ((0.3, True), (0.2999, False)):
        match = alignment(correlation=value)
        assert (match.matches, match.locates) == (fits, fits)
    assert alignment(correlation=-1.0, assessable=False).matches
    assert not alignment(assessable=False).locates
    assert alignment(distinction=0.05).locates
    assert not alignment(distinction=0.0499).locates
    assert [center_tolerance(steps) for steps in (16, 32, 88, 104)] == [4, 4, 11, 13]


def test_pictures_with_less_than_24_rows_or_columns_give_no_verdict():
    frame = moving(1, 1)[0]
    for height, width in ((23, 64), (64, 23), (24, 64), (64, 24)):
        spikes = np.ones((18, height, width), np.uint8)
        match = align(packed(spikes), frame[: 2 * height, : 2 * width])
        assert match.assessable == (min(height, width) == 24)


@pytest.mark.parametrize(("contrast", "assessable"), [(0.0195, False), (0.0205, True)])
def test_pictures_of_little_contrast_give_no_verdict(contrast, assessable):
    details = moving(1, 1)[0].astype(np.float32) - 127
    spikes = np.ones((18, 64, 96), np.uint8)
    texture = band_pass(shrink(details, 64, 96) / np.float32(255)).std()
    match = align(packed(spikes), 127 + details * np.float32(contrast / texture))
    assert match.assessable == assessable
