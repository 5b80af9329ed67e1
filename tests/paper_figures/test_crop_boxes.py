"""Crops that are given by hand or chosen where results differ most."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.paper_figures.crop_boxes import Box, CropSpec, differing_box, parse_crop
from vrtspike.system.errors import ConfigError

RANDOM = np.random.default_rng(3)
SHARP = RANDOM.integers(50, 200, (40, 60, 3), dtype=np.uint8)


def changed(rows: slice, columns: slice, by: int) -> np.ndarray:
    image = SHARP.copy()
    image[rows, columns] += np.uint8(by)
    return image


def test_the_crop_is_that_of_the_largest_difference_between_models():
    first = changed(slice(4, 14), slice(30, 50), 20)
    second = changed(slice(25, 35), slice(5, 25), 30)
    # Both models err here most, and equally.
    for image in (first, second):
        image[0:10, 0:20] -= np.uint8(45)
    blurry = SHARP + np.uint8(40)
    assert differing_box([first, second], blurry, SHARP, (10, 20)) == Box(5, 25, 20, 10)


def test_of_one_model_the_crop_is_that_of_the_largest_gain():
    blurry = SHARP + np.uint8(20)
    blurry[20:30, 10:30] += np.uint8(30)
    restored = SHARP.copy()
    # The blurry frame is as wrong here, but so is the restored one.
    blurry[0:10, 30:50] += np.uint8(35)
    restored[0:10, 30:50] += np.uint8(50)
    assert differing_box([restored], blurry, SHARP, (10, 20)) == Box(10, 20, 20, 10)


def test_without_sharp_frames_the_crop_is_that_where_results_differ():
    first = changed(slice(4, 14), slice(30, 50), 20)
    assert differing_box([SHARP, first], SHARP, None, (10, 20)) == Box(30, 4, 20, 10)
    assert differing_box([first], SHARP, None, (10, 20)) == Box(30, 4, 20, 10)


def test_a_crop_may_be_the_whole_frame():
    assert differing_box([SHARP, SHARP], SHARP, SHARP, (40, 60)) == Box(0, 0, 60, 40)


@pytest.mark.parametrize(
    "text", ["a/1", "a:1,2,3,4", "a/1:1,2,3", "a/1:1,2,0,4", "a/1:1,2,3,0", "a/1:-1,2,3,4"]
)
def test_other_texts_are_no_crops(text):
    with pytest.raises(ConfigError, match=f"--crop {text}: expected SEQUENCE/FRAME:x,y,w,h"):
        parse_crop(text)


def test_a_crop_lies_inside_its_frame():
    place = parse_crop("set/a/0001:50,10,10,30")
    assert place == CropSpec("set/a", "0001", Box(50, 10, 10, 30), "--crop set/a/0001:50,10,10,30")
    place.require_inside((40, 60, 3))
    for size in ((39, 60), (40, 59)):
        with pytest.raises(ConfigError, match=rf"outside of the frame of {size[1]} x {size[0]}"):
            place.require_inside(size)
    assert np.array_equal(place.box.crop(SHARP), SHARP[10:40, 50:60])
