from __future__ import annotations

import os

import cv2
import numpy as np
import pytest

from vrtspike.io.files import file_digest
from vrtspike.io.images import luma, read_gray, read_rgb, shrink, write_png
from vrtspike.system.errors import DataError


def test_round_trip_keeps_channel_order(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image[0, 0] = (255, 0, 10)
    write_png(tmp_path / "a.png", image)
    np.testing.assert_array_equal(read_rgb(tmp_path / "a.png"), image)
    assert tuple(cv2.imread(str(tmp_path / "a.png"))[0, 0]) == (10, 0, 255)
    np.testing.assert_array_equal(read_gray(tmp_path / "a.png"), luma(image))
    write_png(tmp_path / "grey.png", image[:, :, 0])
    np.testing.assert_array_equal(read_gray(tmp_path / "grey.png"), image[:, :, 0])


def png(shape: tuple[int, ...], kind: type = np.uint8) -> bytes:
    return cv2.imencode(".png", np.random.default_rng(0).integers(0, 256, shape).astype(kind))[1]


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (png((4, 4)), "a grey picture"),
        (png((4, 4, 4)), "a 4-channel picture"),
        (png((4, 4, 3), np.uint16), "16 bits per channel"),
        (b"", "not a readable image"),
        (b"not a picture", "not a readable image"),
        (png((64, 64, 3)).tobytes()[:6000], "not a readable image"),
        (None, "cannot be read"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path, contents, reason):
    path = tmp_path / "odd.png"
    if contents is not None:
        path.write_bytes(contents)
    with pytest.raises(DataError, match=rf"odd\.png: {reason}"):
        read_rgb(path)


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    for read in (read_rgb, read_gray):
        with pytest.raises(DataError, match=r"a\.png: cannot be read \(found a pipe \(FIFO\), exp"):
            read(tmp_path / "a.png")
    with pytest.raises(OSError, match=r"found a pipe .* expected a file: .*a\.png"):
        file_digest(tmp_path / "a.png")


@pytest.mark.parametrize("factor", [1, 2, 3, 5])
def test_shrinking_averages_areas(factor):
    image = np.random.default_rng(0).integers(0, 256, (4 * factor, 6 * factor), dtype=np.uint8)
    expected = image.reshape(4, factor, 6, factor).mean(axis=(1, 3))
    np.testing.assert_allclose(shrink(image.astype(np.float32), 4, 6), expected, rtol=1e-5)
    whole = shrink(image, 4, 6)
    assert whole.dtype == np.uint8
    np.testing.assert_allclose(whole, expected, atol=0.5)


def test_luma_is_that_of_bt_601():
    red, green, blue = np.eye(3, dtype=np.uint8)
    colours = np.stack([255 * red, 255 * green, 255 * blue, green, 255 * (red + green + blue)])
    # 76.245, 149.685, 29.07, 0.587 and 255, of integers rounded.
    assert luma(colours[None])[0].tolist() == [76, 150, 29, 1, 255]
    shares = luma(np.eye(3, dtype=np.float32)[None])[0]
    np.testing.assert_allclose(shares, [0.299, 0.587, 0.114], rtol=1e-6)


def photograph():
    """A smooth picture (96, 128, 3), uint8 RGB, which JPEG hardly changes."""
    y, x = np.mgrid[:96, :128]
    return np.stack([x, 2 * y, 255 - x], axis=2).astype(np.uint8)


def jpeg(image, *options):
    done, buffer = cv2.imencode(".jpg", image[:, :, ::-1], list(options))
    assert done
    return buffer.tobytes()


@pytest.mark.parametrize(
    ("quality", "part"),
    [(95, bytes(200)), (95, b"\xff" * 200), (95, None), (75, bytes(200))],
    ids=["zeros", "ones", "cut", "zeros of which a decoder makes a whole picture"],
)
def test_a_damaged_jpeg_is_refused_by_name(tmp_path, quality, part):
    noise = np.random.default_rng(0).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    whole = jpeg(noise, cv2.IMWRITE_JPEG_QUALITY, quality)
    middle = len(whole) // 2
    damaged = whole[:-500] if part is None else whole[:middle] + part + whole[middle + len(part) :]
    (tmp_path / "a.jpg").write_bytes(damaged)
    with pytest.raises(DataError, match=r"a\.jpg: a damaged JPEG file.*copy or convert it again"):
        read_rgb(tmp_path / "a.jpg")


@pytest.mark.parametrize(
    "options",
    [
        (cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
        (cv2.IMWRITE_JPEG_RST_INTERVAL, 4),
        (cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444),
        (cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411),
    ],
)
def test_every_kind_of_jpeg_is_read(tmp_path, options):
    appended = b"what a camera appends", jpeg(photograph())
    (tmp_path / "a.jpg").write_bytes(jpeg(photograph(), *options) + b"".join(appended))
    error = read_rgb(tmp_path / "a.jpg").astype(int) - photograph()
    assert np.abs(error).mean() < 3


@pytest.mark.parametrize(
    ("orientation", "quarters"), [(1, 0), (3, 2), (6, 3), (8, 1)], ids=["as is", "180", "90", "270"]
)
def test_a_jpeg_is_turned_as_its_tag_says(tmp_path, orientation, quarters):
    tag = (0x0112).to_bytes(2, "big") + b"\0\3\0\0\0\1" + bytes([0, orientation, 0, 0])
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\1" + tag + bytes(4)
    plain = jpeg(photograph())
    marked = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    (tmp_path / "plain.jpg").write_bytes(plain)
    (tmp_path / "turned.jpg").write_bytes(plain[:2] + marked + plain[2:])
    expected = np.rot90(read_rgb(tmp_path / "plain.jpg"), quarters)
    np.testing.assert_array_equal(read_rgb(tmp_path / "turned.jpg"), expected)
