"""Pictures of pages: shrinking, compression, size limits."""

from __future__ import annotations

import base64

import cv2
import numpy as np
import pytest

from tests.reporting.results import picture, write_picture
from vrtspike.reporting import picture_encoding
from vrtspike.reporting.picture_encoding import SAMPLE, encode, encode_examples, encode_within
from vrtspike.reporting.task_report import ExampleKinds
from vrtspike.restoration.page.gallery import GALLERY
from vrtspike.system.errors import DataError

KINDS = ExampleKinds(GALLERY, truth="sharp", gray=frozenset({"spikes"}))


def decode(text: str) -> np.ndarray:
    """RGB, or grey as three equal channels."""
    data = np.frombuffer(base64.b64decode(text), np.uint8)
    return cv2.imdecode(data, cv2.IMREAD_COLOR)[..., ::-1]


def make_examples(folder, count, size=(36, 64)):
    examples = []
    for number in range(count):
        files = {what: folder / f"{number}_{what}.png" for what in ("blurry", "restored", "sharp")}
        for place, path in enumerate(files.values()):
            write_picture(path, picture(10 * number + place, *size))
        examples.append((files, KINDS))
    return examples


def characters(encoded) -> int:
    return sum(len(text) for texts in encoded.values() for text in texts.values())


@pytest.mark.parametrize(
    ("size", "expected"),
    [((90, 160), (22, 40)), ((160, 90), (40, 22)), ((18, 32), (18, 32))],
)
def test_the_longest_side_is_kept_to_and_small_pictures_stay(size, expected):
    assert decode(encode(picture(1, *size), 40, 80)).shape[:2] == expected


def test_the_best_level_that_fits_is_taken(tmp_path, monkeypatch):
    examples = make_examples(tmp_path, 3)
    spikes = tmp_path / "spikes.png"
    write_picture(spikes, picture(9, 18, 32)[..., 0])
    files, _ = examples[0]
    files["spikes"] = spikes
    form, whole = encode_examples(examples, 10**7)
    assert form == "WebP of quality 90, at most 1920 pixels wide or high"
    assert list(whole) == [0, 1, 2]
    assert set(whole[0]) == {"blurry", "restored", "sharp", "spikes", "error", "thumbnail"}
    for number, texts in whole.items():
        for what, seed in {"sharp": 2, "thumbnail": 1}.items():
            shown = decode(texts[what]).astype(float)
            assert np.abs(shown - picture(10 * number + seed)).mean() < 8
    levels = ((64, 90), (32, 60), (16, 40))
    monkeypatch.setattr(picture_encoding, "LEVELS", levels)
    sizes = []
    for side, _ in levels:
        form, encoded = encode_examples(examples, sizes[-1] - 1 if sizes else 10**7)
        assert f"at most {side} pixels" in form
        sizes.append(characters(encoded))
    # Pictures that fit at no level are left out evenly.
    many = make_examples(tmp_path, 9)
    _, encoded = encode_examples(many, 2 * sizes[-1])
    assert 4 <= len(encoded) <= 7
    assert (min(encoded), max(encoded)) == (0, 8)
    assert characters(encoded) <= 2 * sizes[-1]
    assert encode_examples(many, 0)[1] == encode_examples([], 0)[1] == {}


def test_a_missing_picture_is_named(tmp_path):
    ((files, kinds),) = make_examples(tmp_path, 1)
    files["sharp"].unlink()
    with pytest.raises(DataError, match=r"0_sharp\.png"):
        encode_examples([(files, kinds)], 10**6)


def test_levels_far_too_large_are_tried_on_few_of_many_frames():
    tried: dict[int, set[int]] = {}

    def encode_pictures(index, side, quality):
        tried.setdefault(side, set()).add(index)
        return {"a": bytes(side)}

    count = 10 * SAMPLE
    levels = ((90, 1), (11, 1), (10, 1), (1, 1))
    form, encoded = encode_within(encode_pictures, count, 10 * count, levels)
    assert form == "WebP of quality 1, at most 10 pixels wide or high"
    assert list(encoded) == list(range(count))
    # 11 is so close to the limit that all frames decide.
    assert {side: len(indices) for side, indices in tried.items()} == {
        90: SAMPLE, 11: count, 10: count,
    }  # fmt: skip
    assert {0, count - 1} <= tried[90]
