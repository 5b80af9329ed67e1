from __future__ import annotations

import base64

import cv2
import numpy as np
import pytest

from tests.reporting.results import picture, write_picture
from vrtspike.errors import DataError
from vrtspike.reporting.pictures import (
    ENCODINGS,
    ERROR_TOP,
    Encoding,
    encode,
    encode_examples,
    error_colours,
    error_map,
)

LOSSLESS = ENCODINGS[0]


def decode(contents: bytes | str) -> np.ndarray:
    data = base64.b64decode(contents) if isinstance(contents, str) else contents
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)


def make_examples(folder, count, height=36, width=64, spikes=True):
    examples = []
    for number in range(count):
        files = {}
        for place, what in enumerate(("blurry", "restored", "sharp")):
            files[what] = folder / f"{number}_{what}.png"
            write_picture(files[what], picture(10 * number + place, height, width))
        if spikes:
            files["spikes"] = folder / f"{number}_spikes.png"
            write_picture(
                files["spikes"], picture(10 * number + 9, height // 2, width // 2)[..., 0]
            )
        examples.append(files)
    return examples


def characters(pictures) -> int:
    return sum(len(text) for texts in pictures.of.values() for text in texts.values())


def test_an_error_map_is_black_where_nothing_differs_and_lightest_at_the_top():
    sharp = np.full((1, 3, 3), 100, np.uint8)
    restored = sharp.copy()
    restored[0, 1] += ERROR_TOP
    restored[0, 2] = 255
    shown = error_map(restored, sharp)
    colours = error_colours()
    assert [f"rgb({r} {g} {b})" for r, g, b in shown[0].tolist()] == [
        colours[0],
        colours[-1],
        colours[-1],
    ]
    assert shown[0, 0].sum() < 20
    # Inferno: light yellow, more red than blue.
    assert shown[0, 2, 0] > 240 > shown[0, 2, 2]


def test_an_error_map_is_the_mean_over_the_colours_whatever_the_sign():
    sharp = np.full((1, 2, 3), 100, np.uint8)
    restored = sharp.copy()
    restored[0, 0] += np.array([24, 0, 0], np.uint8)
    restored[0, 1] -= np.array([0, 12, 12], np.uint8)
    shown = error_map(restored, sharp)
    np.testing.assert_array_equal(shown[0, 0], shown[0, 1])
    # 8 of 32 grey values are a quarter of the scale: the third of nine colours.
    expected = [int(part) for part in error_colours()[2][4:-1].split()]
    np.testing.assert_allclose(shown[0, 0], expected, atol=2)


def test_pictures_without_loss_come_back_as_they_were():
    image = picture(3)
    np.testing.assert_array_equal(decode(encode(image, LOSSLESS))[..., ::-1], image)
    gray = image[..., 0]
    found = decode(encode(gray, LOSSLESS))
    np.testing.assert_array_equal(found if found.ndim == 2 else found[..., 0], gray)


def test_the_longest_side_is_kept_to_and_small_pictures_stay():
    assert decode(encode(picture(1, 90, 160), Encoding(40, 80))).shape[:2] == (22, 40)
    assert decode(encode(picture(1, 160, 90), Encoding(40, 80))).shape[:2] == (40, 22)
    assert decode(encode(picture(1, 18, 32), Encoding(40, 80))).shape[:2] == (18, 32)


def test_the_first_form_that_fits_is_taken(tmp_path):
    examples = make_examples(tmp_path, 3)
    whole = encode_examples(examples, 10**7)
    assert whole.encoding == LOSSLESS
    assert list(whole.of) == [0, 1, 2]
    assert set(whole.of[0]) == {"blurry", "restored", "sharp", "spikes", "error", "thumbnail"}
    for number, texts in whole.of.items():
        np.testing.assert_array_equal(decode(texts["sharp"])[..., ::-1], picture(10 * number + 2))
        small = decode(texts["thumbnail"])[..., ::-1].astype(float)
        assert np.abs(small - picture(10 * number + 1)).mean() < 8
    encodings = (LOSSLESS, Encoding(None, 80), Encoding(32, 60), Encoding(16, 40))
    sizes = [characters(encode_examples(examples, 10**7, [encoding])) for encoding in encodings]
    assert sizes == sorted(sizes, reverse=True)
    for encoding, size in zip(encodings, sizes, strict=True):
        found = encode_examples(examples, size, encodings)
        assert found.encoding == encoding
        assert characters(found) <= size


def test_what_fits_in_no_form_is_left_out_evenly(tmp_path):
    examples = make_examples(tmp_path, 9, spikes=False)
    encodings = (Encoding(32, 60), Encoding(16, 40))
    size = characters(encode_examples(examples, 10**7, encodings[1:]))
    found = encode_examples(examples, size * 6 // 10, encodings)
    assert found.encoding == encodings[1]
    assert 4 <= len(found.of) <= 5
    assert (min(found.of), max(found.of)) == (0, 8)
    assert characters(found) <= size * 6 // 10
    assert encode_examples(examples, 0, encodings).of == {}
    assert encode_examples([], 0).of == {}


def test_pictures_of_other_sizes_are_refused(tmp_path):
    (files,) = make_examples(tmp_path, 1)
    write_picture(files["sharp"], picture(1, 40, 40))
    with pytest.raises(
        DataError, match=r"restored\.png: 64 x 36 pixels, but .*sharp\.png has 40 x 40"
    ):
        encode_examples([files], 10**6)
