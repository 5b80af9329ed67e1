"""Reading and writing of 8-bit images, and their luma."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.io.files import atomic_write_bytes, placeholder_fault, refuse_pipe
from vrtspike.system.errors import DataError

_JPEG = b"\xff\xd8\xff"
"""The first bytes of a JPEG file."""
_JPEG_END = b"\xff\xd9"
_NEEDED_BYTES = 32
"""Bytes at the end of JPEG data without which the picture is another one."""


def _decode(path: Path) -> NDArray[np.uint8]:
    """Decode an 8-bit image, with its stored channels; JPEGs are rotated by their EXIF tag.

    Raises:
        DataError: if the file cannot be read, is cut or a damaged PNG, or is not 8-bit. Of damaged
            JPEG files most are found; TIFF and WebP have no checksums.
    """
    try:
        refuse_pipe(path)
        contents = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    is_jpeg = contents[:3].tobytes() == _JPEG
    if is_jpeg:
        _require_whole_jpeg(path, contents.tobytes())
    # These flags rotate by EXIF, but drop an alpha channel, which a JPEG does not have.
    flags = cv2.IMREAD_ANYCOLOR | cv2.IMREAD_ANYDEPTH if is_jpeg else cv2.IMREAD_UNCHANGED
    image = cv2.imdecode(contents, flags) if contents.size else None
    if image is None:
        unknown = "not a readable image (the file is broken or is no picture)"
        raise DataError(f"{path}: {placeholder_fault(path) or unknown}")
    if image.dtype != np.uint8:
        bits = 8 * image.dtype.itemsize
        raise DataError(f"{path}: {bits} bits per channel, 8-bit expected; convert it first")
    return image.astype(np.uint8, copy=False)


def _require_whole_jpeg(path: Path, contents: bytes) -> None:
    """Refuse a damaged JPEG file, of which OpenCV would decode a part without an error.

    With a block of zeros the picture is complete before the end of the file, so that it does not
    change without the last bytes; a sound file's picture does.
    """
    import av

    fault = DataError(f"{path}: a damaged JPEG file, shown in part; copy or convert it again")
    try:
        shown = _decoded_jpeg(contents)
    except av.error.InvalidDataError as error:
        raise fault from error
    except av.error.FFmpegError:
        return  # not supported by this decoder
    # Cameras append further pictures; take the first.
    splitter = av.CodecContext.create("mjpeg", "r")
    first = bytes([*splitter.parse(contents), *splitter.parse()][0])
    end = first.rfind(_JPEG_END)
    try:
        cut = _decoded_jpeg(first[: end - _NEEDED_BYTES] + first[end:])
    except av.error.FFmpegError:
        return
    if cut == shown:
        raise fault


def _decoded_jpeg(contents: bytes) -> list[bytes]:
    """The planes of a JPEG picture, by a decoder that raises an error for damaged data."""
    import av

    decoder = av.CodecContext.create("mjpeg", "r")
    decoder.options = {"err_detect": "crccheck+bitstream+buffer+explode"}
    frames = decoder.decode(av.Packet(contents))
    return [bytes(plane) for frame in frames for plane in frame.planes]


def read_rgb(path: str | Path) -> NDArray[np.uint8]:
    """Read an 8-bit colour picture.

    Args:
        path: a PNG file (any format OpenCV decodes without loss of depth works).

    Returns:
        uint8 (H, W, 3) in RGB order; a JPEG file's is turned as its EXIF tag says.

    Raises:
        DataError: if the file cannot be decoded, is not 8-bit, or is not three-channel colour.
    """
    image = _decode(Path(path))
    if image.ndim != 3 or image.shape[2] != 3:
        kind = "grey" if image.ndim == 2 else f"{image.shape[2]}-channel"
        raise DataError(f"{path}: a {kind} picture, three-channel RGB expected; convert it first")
    return np.ascontiguousarray(image[:, :, ::-1], dtype=np.uint8)


def read_gray(path: str | Path) -> NDArray[np.uint8]:
    """Read an 8-bit picture, colour or grey, as its luma: uint8 (H, W).

    Raises:
        DataError: if the file cannot be decoded or is not 8-bit.
    """
    image = _decode(Path(path))
    if image.ndim == 2:
        return image
    return luma(np.ascontiguousarray(image[:, :, 2::-1])).astype(np.uint8)


def encode_png(image: NDArray[np.uint8]) -> bytes:
    """Encode uint8 (H, W, 3) RGB or (H, W) grey as PNG; equal pictures give equal bytes."""
    stored = image[:, :, ::-1] if image.ndim == 3 else image
    # Level 1 halves the time of the default at a tenth more bytes.
    options = [cv2.IMWRITE_PNG_COMPRESSION, 1]
    done, buffer = cv2.imencode(".png", np.ascontiguousarray(stored), options)
    if not done:
        raise ValueError(f"cannot encode an array of shape {image.shape} and type {image.dtype}")
    return buffer.tobytes()


def write_png(path: str | Path, image: NDArray[np.uint8]) -> None:
    """Write uint8 (H, W, 3) RGB or (H, W) grey as PNG, atomically."""
    atomic_write_bytes(path, encode_png(image))


def luma(image: NDArray[np.generic]) -> NDArray[np.float32]:
    """Gamma-coded luma of ITU-R BT.601 (0.299 R + 0.587 G + 0.114 B).

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
