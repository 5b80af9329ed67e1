from __future__ import annotations

import os

import cv2
import numpy as np
import pytest

from vrtspike.errors import DataError
from vrtspike.io.files import file_digest
from vrtspike.io.images import luma, read_gray, read_rgb, shrink, write_png


def test_round_trip_keeps_channel_order(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image[0, 0] = (255, 0, 10)
    write_png(tmp_path / "a.png", image)
    np.testing.assert_array_equal(read_rgb(tmp_path / "a.png"), image)
    assert tuple(cv2.imread(str(tmp_path / "a.png"))[0, 0]) == (10, 0, 255)
    np.testing.assert_array_equal(read_gray(tmp_path / "a.png"), luma(image))
    write_png(tmp_path / "grey.png", image[:, :, 0])
    np.testing.assert_array_equal(read_gray(tmp_path / "grey.png"), image[:, :, 0])


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((4, 4), np.uint8), "grey"),
        (np.zeros((4, 4, 4), np.uint8), "4-channel"),
        (np.zeros((4, 4, 3), np.uint16), "16 bits"),
    ],
)
def test_other_pictures_are_refused_by_name(tmp_path, array, reason):
    cv2.imwrite(str(tmp_path / "odd.png"), array)
    with pytest.raises(DataError, match=f"odd.png.*{reason}"):
        read_rgb(tmp_path / "odd.png")


@pytest.mark.parametrize("contents", [b"", b"not a picture"])
def test_broken_files_are_refused(tmp_path, contents):
    (tmp_path / "a.png").write_bytes(contents)
    with pytest.raises(DataError, match="not a readable image"):
        read_rgb(tmp_path / "a.png")
    with pytest.raises(DataError, match="cannot be read"):
        read_rgb(tmp_path / "missing.png")


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    for read in (read_rgb, read_gray):
        with pytest.raises(DataError, match=r"a\.png: cannot be read \(found a pipe \(FIFO\), exp"):
            read(tmp_path / "a.png")
    with pytest.raises(OSError, match=r"found a pipe .* expected a file: .*a\.png"):
        file_digest(tmp_path / "a.png")


def test_a_cut_png_is_refused(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    write_png(tmp_path / "a.png", noise)
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a\.png"):
        read_rgb(tmp_path / "a.png")


@pytest.mark.parametrize("factor", [1, 2, 3, 5])
def test_shrinking_averages_areas(factor):
    image = np.random.default_rng(0).integers(0, 256, (4 * factor, 6 * factor), dtype=np.uint8)
    expected = image.reshape(4, factor, 6, factor).mean(axis=(1, 3))
    np.testing.assert_allclose(shrink(image, 4, 6), expected, rtol=1e-5)


def test_luma_is_that_of_bt_601():
    red, green, blue = np.eye(3, dtype=np.uint8)
    colours = np.stack([255 * red, 255 * green, 255 * blue, green, 255 * (red + green + blue)])
    # 76.245, 149.685, 29.07, 0.587 and 255, of integers rounded.
    assert luma(colours[None])[0].tolist() == [76, 150, 29, 1, 255]
    shares = luma(np.eye(3, dtype=np.float32)[None])[0]
    np.testing.assert_allclose(shares, [0.299, 0.587, 0.114], rtol=1e-6)
