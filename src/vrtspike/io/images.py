"""Reading and writing of images, and their luma."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.io.files import atomic_write_bytes, placeholder_fault, refuse_pipe
from vrtspike.system.errors import DataError

_JPEG = b"\xff\xd8\xff"
"""The first bytes of a JPEG file."""
_JPEG_MARKER = re.compile(rb"\xff([\x01-\xcf\xd8-\xfe])")
"""A marker of a JPEG file other than those inside of a scan; ITU-T T.81, table B.1."""
_JPEG_SCAN = b"\xda"
_JPEG_END = b"\xd9"
_PNG = b"\x89PNG\r\n\x1a\n"
_ORIENTATION_TAG = 0x0112
_MIRRORED = (2, 4, 5, 7)
"""EXIF orientations of mirrored pictures."""
_QUARTERS = {3: 2, 4: 2, 5: 1, 6: 3, 7: 3, 8: 1}
"""Counter-clockwise quarter turns that undo an EXIF orientation, after mirroring."""
HDR_TRANSFERS = frozenset({16, 18})
"""Transfer characteristics PQ and HLG (Rec. ITU-T H.273), also in FFmpeg."""
WIDE_PRIMARIES = frozenset({9, 11, 12})
"""Colour primaries BT.2020, DCI-P3 and Display P3 (Rec. ITU-T H.273), also in FFmpeg."""
_NEEDED_BYTES = 32
"""Bytes at the end of a JPEG scan without which a decoder fails or shows another picture."""


@dataclass(frozen=True)
class Picture:
    """A picture as RGB, and the kind that its file stores.

    Attributes:
        rgb: (H, W, 3), uint8 or uint16.
        kind: stored channels: ``RGB``, ``grey`` or ``RGB with transparency``.
    """

    rgb: NDArray[np.uint8] | NDArray[np.uint16]
    kind: str

    @property
    def bits(self) -> int:
        """Bits per channel, 8 or 16."""
        return 8 * self.rgb.dtype.itemsize


def _decode(path: Path) -> NDArray[Any]:
    """Decode an image with its stored channels and depth, oriented as its EXIF tag says.

    Raises:
        DataError: if the file cannot be read, is cut or a damaged PNG, is too large for OpenCV, or
            is a PNG of high dynamic range or wide gamut. Most damaged JPEG files are detected; TIFF
            and WebP have no checksums.
    """
    try:
        refuse_pipe(path)
        contents = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    data = contents.tobytes()
    if data.startswith(_JPEG):
        _require_whole_jpeg(path, data)
    _require_standard_colors(path, data)
    image: NDArray[Any] | None = None
    exif = b""
    if data:
        try:
            image, exif = _decoded(contents)
        except cv2.error as error:
            raise DataError(
                f"{path}: cannot be decoded ({error.err or error}); OpenCV reads pictures of at "
                "most 2^30 pixels; crop it or make it smaller"
            ) from error
    if image is None:
        unknown = "not a readable image (the file is broken or is no picture)"
        raise DataError(f"{path}: {placeholder_fault(path) or unknown}")
    orientation = _orientation(exif)
    if orientation in _MIRRORED:
        image = image[:, ::-1]
    return np.ascontiguousarray(np.rot90(image, _QUARTERS.get(orientation, 0)))


def _decoded(contents: NDArray[np.uint8]) -> tuple[NDArray[Any] | None, bytes]:
    """Return the stored pixels and the EXIF data of a file; pixels are None if it is not an image.

    OpenCV itself applies the orientation of some files only: not of WebP, of transparent PNG, nor
    of JPEG whose EXIF data follow a JFIF header. TIFF files are always turned and give no data.
    """
    image, kinds, data = cv2.imdecodeWithMetadata(contents, flags=cv2.IMREAD_UNCHANGED)
    blocks = dict(zip(kinds, data, strict=True))
    exif = blocks.get(cv2.IMAGE_METADATA_EXIF)
    if exif is None:
        return image, b""
    return image, np.asarray(exif).tobytes()


def _orientation(exif: bytes) -> int:
    """Return the orientation in EXIF data, 1 to 8; 1, upright, if there is none."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return 1
    try:
        (start,) = struct.unpack_from(f"{order}I", exif, 4)
        (count,) = struct.unpack_from(f"{order}H", exif, start)
        for index in range(count):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", exif, start + 2 + 12 * index)
            if tag == _ORIENTATION_TAG:
                return int(value)
    except struct.error:  # cut
        return 1
    return 1


def _require_standard_colors(path: Path, contents: bytes) -> None:
    """Reject a PNG file of high dynamic range or wide gamut, as videos of such colours are."""
    for name, data in _png_header_chunks(contents):
        if name != b"cICP" or len(data) < 2:
            continue
        if data[0] in WIDE_PRIMARIES or data[1] in HDR_TRANSFERS:
            raise DataError(
                f"{path}: found a PNG of high dynamic range or of a wide gamut (cICP primaries "
                f"{data[0]}, transfer {data[1]}), expected standard range and BT.709 or sRGB: its "
                "colours would come out pale; convert it with a picture program"
            )


def _png_header_chunks(contents: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield names and data of a PNG file's chunks before its pixels; none of another file."""
    if not contents.startswith(_PNG):
        return
    offset = len(_PNG)
    while offset + 8 <= len(contents):
        length, name = struct.unpack_from(">I4s", contents, offset)
        if name == b"IDAT":
            return
        yield name, contents[offset + 8 : offset + 8 + length]
        offset += length + 12  # length, name and checksum


def _require_whole_jpeg(path: Path, contents: bytes) -> None:
    """Reject a damaged JPEG file, of which OpenCV would decode a part without an error.

    The picture is decoded a second time without the last bytes of its data. If the file is sound,
    the decoder misses them, or the picture changes. If a block of the data is zero, the picture is
    complete before the end and stays the same.
    """
    import av

    fault = DataError(f"{path}: a damaged JPEG file, shown in part; copy or convert it again")
    scan = _last_scan(contents)
    if scan is None:
        raise fault
    try:
        shown = _decoded_jpeg(contents)
    except av.error.InvalidDataError as error:
        raise fault from error
    except av.error.FFmpegError:
        return  # not supported by this decoder
    if scan.stop - scan.start <= _NEEDED_BYTES:
        return
    try:
        cut = _decoded_jpeg(contents[: scan.stop - _NEEDED_BYTES] + contents[scan.stop :])
    except av.error.FFmpegError:
        return
    if cut == shown:
        raise fault


def _last_scan(contents: bytes) -> slice | None:
    """Find the pixels of a JPEG picture's last scan; None if the file has none or lacks its end.

    A camera's further pictures, after the end of the first, are left out (ITU-T T.81, annex B).
    """
    scan = None
    segment, offset = b"", 2
    while marker := _JPEG_MARKER.search(contents, offset):
        if segment == _JPEG_SCAN:
            scan = slice(offset, marker.start())
        if marker[1] == _JPEG_END:
            return scan
        segment = marker[1]
        length = int.from_bytes(contents[marker.end() : marker.end() + 2], "big")
        offset = marker.end() + length
    return None


def _decoded_jpeg(contents: bytes) -> list[bytes]:
    """Return the planes of a JPEG picture, by a decoder that raises an error for damaged data."""
    import av

    decoder = av.CodecContext.create("mjpeg", "r")
    decoder.options = {"err_detect": "crccheck+bitstream+buffer+explode"}
    frames = decoder.decode(av.Packet(contents))
    return [bytes(plane) for frame in frames for plane in frame.planes]


def read_picture(path: str | Path) -> Picture:
    """Read a picture of any kind as RGB; transparency is dropped.

    Args:
        path: a file that OpenCV decodes, with 8 or 16 bits per channel.

    Raises:
        DataError: if the file cannot be decoded or has another depth.
    """
    image = _decode(Path(path))
    if image.dtype not in (np.uint8, np.uint16):
        raise DataError(
            f"{path}: found {image.dtype} values, expected 8 or 16 bits per channel; convert it"
        )
    if image.ndim == 2:
        return Picture(np.repeat(image[:, :, None], 3, axis=2), "grey")
    kind = "RGB" if image.shape[2] == 3 else "RGB with transparency"
    return Picture(np.ascontiguousarray(image[:, :, 2::-1]), kind)


def read_rgb(path: str | Path) -> NDArray[np.uint8]:
    """Read an 8-bit colour picture.

    Args:
        path: a PNG file (any format OpenCV decodes without loss of depth works).

    Returns:
        uint8 (H, W, 3) in RGB order, turned as its EXIF tag says.

    Raises:
        DataError: if the file cannot be decoded, is not 8-bit, or is not three-channel colour.
    """
    image = _decode_8_bit(Path(path))
    if image.ndim != 3 or image.shape[2] != 3:
        kind = "grey" if image.ndim == 2 else f"{image.shape[2]}-channel"
        raise DataError(f"{path}: a {kind} picture, three-channel RGB expected; convert it first")
    return np.ascontiguousarray(image[:, :, ::-1], dtype=np.uint8)


def _decode_8_bit(path: Path) -> NDArray[np.uint8]:
    image = _decode(path)
    if image.dtype != np.uint8:
        bits = 8 * image.dtype.itemsize
        raise DataError(f"{path}: {bits} bits per channel, 8-bit expected; convert it first")
    return image.astype(np.uint8, copy=False)


def read_gray(path: str | Path) -> NDArray[np.uint8]:
    """Read an 8-bit picture, colour or grey, as its luma: uint8 (H, W).

    Raises:
        DataError: if the file cannot be decoded or is not 8-bit.
    """
    image = _decode_8_bit(Path(path))
    if image.ndim == 2:
        return image
    return luma(np.ascontiguousarray(image[:, :, 2::-1])).astype(np.uint8)


def to_8_bit(image: NDArray[np.uint8] | NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Round a picture to 8 bits per channel.

    >>> to_8_bit(np.array([0, 128, 129, 65535], np.uint16)).tolist()
    [0, 0, 1, 255]
    """
    if image.dtype == np.uint8:
        return image.astype(np.uint8, copy=False)
    # Rounding is unambiguous: 65535 = 255 * 257, and 257 is odd, so no value lies half-way.
    return ((image.astype(np.uint32) + 128) // 257).astype(np.uint8)


def encode_png(image: NDArray[np.uint8] | NDArray[np.uint16]) -> bytes:
    """Encode uint8 or uint16 (H, W, 3) RGB or (H, W) grey as PNG.

    Equal pictures give equal bytes.
    """
    stored = image[:, :, ::-1] if image.ndim == 3 else image
    # Level 1 halves the time of the default at a tenth more bytes.
    options = [cv2.IMWRITE_PNG_COMPRESSION, 1]
    done, buffer = cv2.imencode(".png", np.ascontiguousarray(stored), options)
    if not done:
        raise ValueError(f"cannot encode an array of shape {image.shape} and type {image.dtype}")
    return buffer.tobytes()


def write_png(path: str | Path, image: NDArray[np.uint8] | NDArray[np.uint16]) -> None:
    """Write uint8 or uint16 (H, W, 3) RGB or (H, W) grey as PNG, atomically."""
    atomic_write_bytes(path, encode_png(image))


def luma(image: NDArray[np.generic]) -> NDArray[np.float32]:
    """Return the gamma-coded luma of ITU-R BT.601 (0.299 R + 0.587 G + 0.114 B).

    Args:
        image: (..., H, W, 3) RGB of any range, or (H, W), which is returned as it is.

    Returns:
        float32 (..., H, W) in the range of the input, rounded when the input holds integers.
    """
    if image.ndim == 2:
        return image.astype(np.float32)
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32)
    gray = image.astype(np.float32) @ weights
    return np.rint(gray) if np.issubdtype(image.dtype, np.integer) else gray


def shrink(image: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Average areas of a grey picture (H, W) down to (height, width), of the same type.

    Whole grey levels become whole ones, which is faster.
    """
    return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA))
