"""Labelled side-by-side pictures of an evaluation."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from vrtspike.evaluation.comparison_pictures import (
    GAP,
    LABEL_HEIGHT,
    PICTURE_COLUMN_WIDTH,
    comparison,
)


@pytest.fixture(scope="module")
def frames() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    sharp = rng.integers(0, 256, (54, 96, 3), dtype=np.uint8)
    return sharp // 4, sharp // 2, sharp


def column(picture: np.ndarray, number: int) -> np.ndarray:
    left = number * (PICTURE_COLUMN_WIDTH + GAP)
    return picture[:, left : left + PICTURE_COLUMN_WIDTH]


def test_three_columns_in_the_order_blurry_restored_sharp(frames):
    picture = comparison(*frames)
    assert picture.dtype == np.uint8
    assert picture.shape[1] == 3 * PICTURE_COLUMN_WIDTH + 2 * GAP
    for number, frame in enumerate(frames):
        large = cv2.resize(frame, (PICTURE_COLUMN_WIDTH, 270), interpolation=cv2.INTER_NEAREST)
        np.testing.assert_array_equal(column(picture, number)[LABEL_HEIGHT:], large)


def test_each_label_has_the_value_of_its_frame(frames):
    blur, restored, sharp = frames

    def labels(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
        picture = comparison(first, second, sharp)
        return [column(picture, number)[:LABEL_HEIGHT] for number in range(2)]

    usual, better, worse = labels(blur, restored), labels(restored, restored), labels(blur, blur)
    assert np.array_equal(usual[1], better[1])
    assert not np.array_equal(usual[0], better[0])
    assert np.array_equal(usual[0], worse[0])
    assert not np.array_equal(usual[1], worse[1])


def test_large_frames_are_averaged_and_not_thinned_out():
    rows, columns = np.mgrid[:720, :1440]
    board = np.where((rows + columns) % 2, 200, 0).astype(np.uint8)[..., None].repeat(3, axis=2)
    shown = comparison(board, board, board)[LABEL_HEIGHT:, :PICTURE_COLUMN_WIDTH]
    # Areas of 3 x 3 pixels hold four or five bright ones.
    assert set(np.unique(shown)) == {89, 111}
