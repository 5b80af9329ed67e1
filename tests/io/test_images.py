"""Reading of pictures: channel order, rotation, bit depth, damaged and unsupported files."""

from __future__ import annotations

import os
import struct
import zlib

import cv2
import numpy as np
import pytest

from vrtspike.io.files import file_digest
from vrtspike.io.images import luma, read_gray, read_picture, read_rgb, shrink, write_png
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


_PROGRESSIVE = (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
_RESTARTS = (cv2.IMWRITE_JPEG_RST_INTERVAL, 1)


@pytest.mark.parametrize("side", [1, 8, 17, 64])
@pytest.mark.parametrize("is_grey", [False, True], ids=["colour", "grey"])
@pytest.mark.parametrize(
    "options",
    [(), _PROGRESSIVE, _RESTARTS, (*_PROGRESSIVE, *_RESTARTS), (cv2.IMWRITE_JPEG_OPTIMIZE, 1)],
    ids=["baseline", "progressive", "restarts", "progressive restarts", "optimized"],
)
@pytest.mark.parametrize("colour", ["black", "red", "white", "noise"])
def test_a_jpeg_is_refused_only_if_it_is_cut(tmp_path, colour, options, is_grey, side):
    """The last scans of a uniform progressive picture are nearly empty."""
    uniform = {"black": (0, 0, 0), "red": (0, 0, 255), "white": (255, 255, 255)}
    noise = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    picture = noise if colour == "noise" else np.full_like(noise, uniform[colour])
    stored = cv2.imencode(".jpg", picture[:, :, 0] if is_grey else picture, options)[1].tobytes()
    (tmp_path / "whole.jpg").write_bytes(stored)
    assert read_gray(tmp_path / "whole.jpg").shape == (side, side)
    for kept in (-2, -3, -20, len(stored) // 2, 20, 3):
        (tmp_path / "cut.jpg").write_bytes(stored[:kept])
        with pytest.raises(DataError, match=r"cut\.jpg: a damaged JPEG file, shown in part"):
            read_gray(tmp_path / "cut.jpg")


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
    appended = b"what a camera appends\xff\xda\xff\xd9", jpeg(photograph())
    (tmp_path / "a.jpg").write_bytes(jpeg(photograph(), *options) + b"".join(appended))
    error = read_rgb(tmp_path / "a.jpg").astype(int) - photograph()
    assert np.abs(error).mean() < 3


@pytest.mark.parametrize(
    ("orientation", "quarters"), [(1, 0), (3, 2), (6, 3), (8, 1)], ids=["as is", "180", "90", "270"]
)
def test_a_jpeg_is_rotated_by_its_tag(tmp_path, orientation, quarters):
    tag = (0x0112).to_bytes(2, "big") + b"\0\3\0\0\0\1" + bytes([0, orientation, 0, 0])
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\1" + tag + bytes(4)
    plain = jpeg(photograph())
    marked = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    (tmp_path / "plain.jpg").write_bytes(plain)
    (tmp_path / "turned.jpg").write_bytes(plain[:2] + marked + plain[2:])
    expected = np.rot90(read_rgb(tmp_path / "plain.jpg"), quarters)
    np.testing.assert_array_equal(read_rgb(tmp_path / "turned.jpg"), expected)


def exif(orientation, order=">"):
    mark = {"<": b"II", ">": b"MM"}[order]
    tag = struct.pack(f"{order}HHIHH", 0x0112, 3, 1, orientation, 0)
    return mark + struct.pack(f"{order}HIH", 42, 8, 1) + tag + bytes(4)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def with_png_chunk(picture, name, data):
    """A PNG file with a chunk after its header (8 bytes of signature, 25 of IHDR)."""
    contents = cv2.imencode(".png", picture)[1].tobytes()
    return contents[:33] + chunk(name, data) + contents[33:]


def with_webp_exif(picture, data):
    options = [cv2.IMWRITE_WEBP_QUALITY, 101]  # lossless
    contents = cv2.imencode(".webp", picture, options)[1].tobytes()
    height, width = picture.shape[:2]
    size = b"".join((side - 1).to_bytes(3, "little") for side in (width, height))
    extended = b"VP8X" + struct.pack("<I", 10) + b"\x08\0\0\0" + size
    padded = data + bytes(len(data) % 2)
    body = b"WEBP" + extended + contents[12:] + b"EXIF" + struct.pack("<I", len(data)) + padded
    return b"RIFF" + struct.pack("<I", len(body)) + body


def with_jfif_and_exif(picture, data):
    """A JPEG file whose EXIF data follow its JFIF header, as many programs write it."""
    contents = cv2.imencode(".jpg", picture)[1].tobytes()
    assert contents[2:4] == b"\xff\xe0"
    end = 4 + int.from_bytes(contents[4:6], "big")
    marked = b"\xff\xe1" + (len(data) + 8).to_bytes(2, "big") + b"Exif\0\0" + data
    return contents[:end] + marked + contents[end:]


_TURNS = {
    1: lambda image: image,
    2: np.fliplr,
    3: lambda image: np.rot90(image, 2),
    4: np.flipud,
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: np.rot90(image, 3),
    7: lambda image: np.rot90(image, 2).swapaxes(0, 1),
    8: np.rot90,
}


@pytest.mark.parametrize("orientation", _TURNS)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["png", "transparent png", "webp", "jpg"])
def test_a_picture_is_rotated_by_its_tag(tmp_path, kind, order, orientation):
    picture, data = photograph(), exif(orientation, order)
    if kind == "transparent png":
        picture = np.dstack([picture, np.full(picture.shape[:2], 255, np.uint8)])
    contents = {
        "png": lambda: with_png_chunk(picture, b"eXIf", data),
        "transparent png": lambda: with_png_chunk(picture, b"eXIf", data),
        "webp": lambda: with_webp_exif(picture, data),
        "jpg": lambda: with_jfif_and_exif(picture, data),
    }[kind]()
    (tmp_path / "a.png").write_bytes(contents)
    turned = read_picture(tmp_path / "a.png").rgb
    expected = _TURNS[orientation](photograph()[:, :, ::-1])
    assert turned.shape == expected.shape
    assert np.abs(turned.astype(int) - expected).mean() < (3 if kind == "jpg" else 0.01)


@pytest.mark.parametrize("data", [b"MM", b"MM\0*\0\0\0\x08\0\x09", b"II*\0\xff\xff\xff\xff"])
def test_damaged_exif_data_rotate_nothing(tmp_path, data):
    (tmp_path / "a.png").write_bytes(with_png_chunk(photograph(), b"eXIf", data))
    np.testing.assert_array_equal(read_rgb(tmp_path / "a.png"), photograph()[:, :, ::-1])


@pytest.mark.parametrize(
    ("colours", "is_sound"),
    [((9, 16), False), ((9, 1), False), ((1, 18), False), ((12, 13), False), ((1, 13), True)],
    ids=["BT.2020 PQ", "BT.2020", "HLG", "Display P3", "sRGB"],
)
def test_a_png_of_high_dynamic_range_or_wide_gamut_is_refused(tmp_path, colours, is_sound):
    contents = with_png_chunk(photograph(), b"cICP", bytes([*colours, 0, 1]))
    (tmp_path / "a.png").write_bytes(contents)
    if is_sound:
        assert read_rgb(tmp_path / "a.png").shape == (96, 128, 3)
        return
    for read in (read_rgb, read_gray, read_picture):
        with pytest.raises(DataError, match=r"a\.png: found a PNG of high dynamic range or of a w"):
            read(tmp_path / "a.png")


def test_a_picture_of_too_many_pixels_is_refused_by_name(tmp_path):
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + pixels)
    with pytest.raises(DataError, match=r"a\.png: cannot be decoded .*at most 2\^30 pixels"):
        read_rgb(tmp_path / "a.png")


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize(
    ("channels", "description"), [(None, "grey"), (3, "RGB"), (4, "RGB with transparency")]
)
def test_pictures_of_every_kind_are_read_as_rgb(tmp_path, channels, description, kind):
    shape = (4, 6) if channels is None else (4, 6, channels)
    stored = np.random.default_rng(0).integers(0, np.iinfo(kind).max, shape).astype(kind)
    (tmp_path / "a.png").write_bytes(cv2.imencode(".png", stored)[1])
    picture = read_picture(tmp_path / "a.png")
    assert (picture.kind, picture.bits) == (description, 8 * np.dtype(kind).itemsize)
    expected = np.dstack([stored] * 3) if channels is None else stored[:, :, 2::-1]
    np.testing.assert_array_equal(picture.rgb, expected)


def test_a_picture_of_16_bits_keeps_them(tmp_path):
    image = np.random.default_rng(0).integers(0, 65536, (4, 6, 3)).astype(np.uint16)
    write_png(tmp_path / "a.png", image)
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png").rgb, image)


def test_a_picture_of_floating_point_numbers_is_refused(tmp_path):
    cv2.imwrite(str(tmp_path / "a.tif"), np.zeros((4, 6), np.float32))
    with pytest.raises(DataError, match=r"a\.tif: found float32 values, expected 8 or 16 bits"):
        read_picture(tmp_path / "a.tif")
