"""Frames on disk and their grey versions: 8-bit RGB pictures in, arrays out."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.errors import DataError
from vrtspike.io.files import atomic_path, placeholder_fault, refuse_pipe

_JPEG = b"\xff\xd8\xff"
"""The first bytes of a JPEG file."""
_JPEG_END = b"\xff\xd9"
_NEEDED_BYTES = 32
"""So many at the end of a JPEG picture's data change it; some programs put a few more there."""


def _decode(path: Path) -> NDArray[np.uint8]:
    """Decode an 8-bit image, its channels as they are stored, turned as its EXIF tag says.

    Raises:
        DataError: if the file cannot be read or decoded, of a JPEG also where a part of it cannot,
            or is not 8-bit.
    """
    try:
        refuse_pipe(path)
        contents = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    is_jpeg = contents[:3].tobytes() == _JPEG
    if is_jpeg:
        _require_whole_jpeg(path, contents.tobytes())
    # Only what drops an alpha channel turns pictures; a JPEG has none.
    flags = cv2.IMREAD_ANYCOLOR | cv2.IMREAD_ANYDEPTH if is_jpeg else cv2.IMREAD_UNCHANGED
    image = cv2.imdecode(contents, flags) if contents.size else None
    if image is None:
        reason = (
            placeholder_fault(path) or "not a readable image (the file is broken or is no picture)"
        )
        raise DataError(f"{path}: {reason}")
    if image.dtype != np.uint8:
        bits = 8 * image.dtype.itemsize
        raise DataError(f"{path}: {bits} bits per channel, 8-bit expected; convert it first")
    return image.astype(np.uint8, copy=False)


def _require_whole_jpeg(path: Path, contents: bytes) -> None:
    """Refuse a JPEG file of which OpenCV would show a part, with a warning that names no file.

    Zeros of a lost block mean more of the picture than what stood there, so that the picture is
    full before the file is at its end; otherwise it is another one without its last bytes.
    """
    import av

    fault = DataError(f"{path}: a damaged JPEG file, shown in part; copy or convert it again")
    try:
        shown = _decoded_jpeg(contents)
    except av.error.InvalidDataError as error:
        raise fault from error
    except av.error.FFmpegError:
        return  # a kind that this decoder does not know
    # Cameras append more pictures; the parser gives the first.
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
    """The planes of a JPEG file's picture, by a decoder that raises where OpenCV's warns."""
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
    done, buffer = cv2.imencode(
        ".png", np.ascontiguousarray(stored), [cv2.IMWRITE_PNG_COMPRESSION, 1]
    )
    if not done:
        raise ValueError(f"cannot encode an array of shape {image.shape} and type {image.dtype}")
    return buffer.tobytes()


def write_png(path: str | Path, image: NDArray[np.uint8]) -> None:
    """Write uint8 (H, W, 3) RGB or (H, W) grey as PNG, atomically."""
    contents = encode_png(image)
    with atomic_path(path) as temporary:
        temporary.write_bytes(contents)


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


def shrink(image: NDArray[np.generic], height: int, width: int) -> NDArray[np.float32]:
    """Average areas of a grey picture (H, W) down to (height, width), float32."""
    source = image.astype(np.float32)
    if source.shape == (height, width):
        return source
    return cv2.resize(source, (width, height), interpolation=cv2.INTER_AREA).astype(np.float32)
