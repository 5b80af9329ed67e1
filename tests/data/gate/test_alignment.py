from __future__ import annotations

import cv2
import numpy as np
import pytest

from tests.data.scenes import film, packed
from vrtspike.data.gate.alignment import (
    Alignment,
    align,
    band_pass,
    center_tolerance,
    correlation,
    correlation_curve,
    disorder,
    find_peak,
    mismatch,
    order_fault,
)
from vrtspike.data.raw.packed import PackedSpikes, pack_rows
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.io.images import read_gray, shrink
from vrtspike.system.errors import DataError


def moving(seed, count, height=128, width=192, speed=3):
    return [frame[..., 0] for frame in film(seed, count, height, width, speed)]


@pytest.mark.parametrize("exposure", [3, 7, 11, 13])
def test_centre_is_the_middle_frame(exposure):
    frames = moving(0, exposure + 1)
    spikes = simulate_spikes(frames)[: 8 * exposure]
    found = align(packed(spikes), frames[exposure // 2])
    assert found.center == pytest.approx(4 * (exposure - 1), abs=1.5)
    assert found.correlation > 0.8


def test_silent_spikes_do_not_match_a_textured_frame():
    found = align(packed(np.zeros((88, 64, 96), np.uint8)), moving(0, 1)[0])
    assert (found.correlation, found.matches) == (0.0, False)


@pytest.mark.parametrize("size", [(90, 160), (45, 61)])
def test_the_band_pass_is_nearly_the_difference_of_two_gaussians(size):
    image = np.random.default_rng(0).random(size, dtype=np.float32)
    image += np.linspace(0, 9, size[1], dtype=np.float32)
    fine = cv2.GaussianBlur(image, (0, 0), 1)
    expected = fine - cv2.GaussianBlur(fine, (0, 0), 9)
    np.testing.assert_allclose(band_pass(image), expected, atol=0.5 * expected.std())


@pytest.mark.parametrize("size", [(128, 192), (128, 182), (400, 400)])
@pytest.mark.parametrize("speed", [2, 12, 40])
def test_a_few_windows_find_what_all_would(size, speed):
    frames = moving(7, 12, *size, speed)
    spikes = packed(simulate_spikes(frames)[:88])
    sharp = band_pass(shrink(frames[5], *spikes.shape[1:]) / np.float32(255))
    for blurry, window in ((False, 9), (True, 88)):
        means = [sum(spikes[first + n] for n in range(window)) for first in range(89 - window)]
        curve = [correlation(band_pass(mean.astype(np.float32)), sharp) for mean in means]
        found = align(spikes, frames[5], blurry=blurry)
        assert found.correlation == pytest.approx(max(curve), abs=3e-3)
        assert found.distinction == pytest.approx(max(curve) - min(curve), abs=0.05)
        peak = find_peak(np.array(curve))[0]
        assert found.center == pytest.approx(peak + (window - 1) / 2, abs=0.5)
        if not blurry:
            centres, seen = correlation_curve(spikes, frames[5])
            np.testing.assert_allclose(seen, curve, atol=1e-5)
            np.testing.assert_array_equal(centres, np.arange(80) + 4)


def reversed_bits(spikes):
    """As numpy.packbits writes them by default."""
    return np.packbits(np.unpackbits(pack_rows(spikes), axis=2, bitorder="little"), axis=2)


def reordered(spikes, mask):
    """With the columns of each byte in another order."""
    return packed(spikes[:, :, np.arange(spikes.shape[2]) ^ mask])


WRITTEN_WRONGLY = {
    "with the bits of each byte reversed": lambda s: PackedSpikes(reversed_bits(s), s.shape[2]),
    "with the halves of each byte (nibbles) exchanged": lambda s: reordered(s, 4),
    "with the bits of each half byte reversed": lambda s: reordered(s, 3),
    "mirrored from right to left": lambda s: packed(s[:, :, ::-1]),
    "upside down": lambda s: packed(s[:, ::-1]),
    "turned by 180 degrees": lambda s: packed(s[:, ::-1, ::-1]),
    "moved by -5 rows down and 0 columns to the right": lambda s: packed(np.roll(s, 5, 1)),
}


@pytest.mark.parametrize("blurry", [False, True])
@pytest.mark.parametrize("how", WRITTEN_WRONGLY)
def test_spikes_in_another_order_are_told_as_what_they_are(how, blurry):
    frames = moving(3, 12, speed=1)
    spikes = simulate_spikes(frames)[:88].view(np.uint8)
    shown = np.mean(frames[:11], axis=0).astype(np.uint8) if blurry else frames[5]
    sound = align(packed(spikes), shown, blurry=blurry)
    assert sound.matches
    assert sound.better == ""
    found = align(WRITTEN_WRONGLY[how](spikes), shown, blurry=blurry)
    told = mismatch(found, "a.dat", "b.png", (64, 96))
    assert told is not None
    assert told.startswith(f"a.dat: the spikes would fit b.png better {how}")


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
    found = align(reordered(spikes, mask), read_gray(shared / f"samples/{name}.png"))
    assert found.matches == (mask == 0)
    assert found.better.startswith(f"with the {how}" if how else "")
    assert bool(found.better) == bool(how)


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
    found = align(spikes, sharp)
    assert found.center == pytest.approx(center, rel=0.025)
    assert found.correlation > 0.9
    assert found.better == ""
    other = read_gray(samples / "gopro_test/GOPR0384_11_00/sharp/000001.png")
    others = [sharp[::-1], *([other] if name.startswith("spk_gopro") else [])]
    assert all(align(spikes, frame).correlation < 0.1 for frame in others)


def test_the_centre_is_that_of_the_window():
    frame, other = (moving(seed, 1)[0][:96, :96] for seed in (5, 6))
    spikes = np.stack([other[::2, ::2] > 127] * 60)
    # Windows hold 9 steps: only that of steps 20 to 28 shows nothing but the frame.
    spikes[20:29] = frame[::2, ::2] > 127
    assert align(packed(spikes), frame).center == pytest.approx(24, abs=0.2)


def found_with(**values):
    sound = {"center": 1.0, "correlation": 0.9, "distinction": 0.3}
    return Alignment(**{**sound, "assessable": True, **values})


def test_the_limits_of_a_verdict():
    for value, fits in ((0.3, True), (0.2999, False)):
        found = found_with(correlation=value)
        assert (found.matches, found.locates) == (fits, fits)
    assert found_with(correlation=-1.0, assessable=False).matches
    assert not found_with(assessable=False).locates
    assert found_with(distinction=0.05).locates
    assert not found_with(distinction=0.0499).locates
    assert [center_tolerance(steps) for steps in (16, 32, 88, 104)] == [4, 4, 11, 13]


def test_pictures_with_less_than_24_rows_or_columns_give_no_verdict():
    frame = moving(1, 1)[0]
    for height, width in ((23, 64), (64, 23), (24, 64), (64, 24)):
        spikes = np.ones((18, height, width), np.uint8)
        found = align(packed(spikes), frame[: 2 * height, : 2 * width])
        assert found.assessable == (min(height, width) == 24)


@pytest.mark.parametrize(("contrast", "assessable"), [(0.0195, False), (0.0205, True)])
def test_pictures_of_little_contrast_give_no_verdict(contrast, assessable):
    details = moving(1, 1)[0].astype(np.float32) - 127
    spikes = np.ones((18, 64, 96), np.uint8)
    texture = band_pass(shrink(details, 64, 96) / np.float32(255)).std()
    found = align(packed(spikes), 127 + details * np.float32(contrast / texture))
    assert found.assessable == assessable


def by_definition(spikes):
    count = spikes.sum(axis=0, dtype=np.int64)
    pairs = np.count_nonzero(spikes[:-1] & spikes[1:])
    chance = float((count * (count - 1)).sum()) / len(spikes)
    regular = float(np.maximum(2 * count - len(spikes), 0).sum())
    return (pairs - regular) / (chance - regular)


@pytest.mark.parametrize("width", [128, 118])  # whole bytes, and rows that end within one
@pytest.mark.parametrize(("share", "refused"), [(0, False), (0.6, False), (0.8, True), (1, True)])
def test_spikes_are_refused_where_most_pixels_are_shuffled(share, refused, width):
    spikes = simulate_spikes([frame[:, :width] for frame in film(1, 40)]).view(np.uint8)
    random = np.random.default_rng(0)
    mixed = random.random(spikes.shape[1:]) < share
    spikes[:, mixed] = random.permuted(spikes[:, mixed], axis=0)
    assert disorder(packed(spikes)) == by_definition(spikes) == pytest.approx(share, abs=0.1)
    fault = order_fault(packed(spikes), "a.dat")
    assert bool(fault and fault.startswith("a.dat: ") and "shuffled" in fault) == refused


@pytest.mark.parametrize(("pixels", "enough"), [(0, False), (38, False), (39, True)])
def test_a_verdict_on_the_order_takes_200_pairs(pixels, enough):
    # 22 spikes in 88 steps: 22 * 21 / 88 = 5.25 pairs by chance in each pixel.
    spikes = np.zeros((88, 1, pixels + 8), np.uint8)
    spikes[::4, :, :pixels] = 1
    assert disorder(packed(spikes)) == (0.0 if enough else None)


def test_pixels_that_fire_in_more_than_half_of_the_steps():
    # Two of three steps: 2 n - T = 20 pairs are regular in 60 steps, chance makes 26.
    regular = np.zeros((60, 8, 8), np.uint8)
    regular[0::3] = regular[1::3] = 1
    assert disorder(packed(regular)) == pytest.approx(0, abs=0.01)
    shuffled = np.random.default_rng(0).permuted(regular, axis=0)
    assert disorder(packed(shuffled)) == pytest.approx(1, abs=0.1)
