"""Colours against a conversion in float64, by the definitions of BT.709 and BT.601."""

from __future__ import annotations

import av
import cv2
import numpy as np
import pytest

from vrtspike.data.video.colors import to_rgb, to_video_frame

LUMA = {1: (0.2126, 0.0722), 5: (0.299, 0.114)}
"""Weights of red and blue, by FFmpeg's number of the matrix."""


def scene(low: int, high: int) -> np.ndarray:
    """A smooth scene with some noise, even sides."""
    random = np.random.default_rng(low)
    colours = random.uniform(low, high, (16, 24, 3)).astype(np.float32)
    smooth = cv2.resize(colours, (192, 128), interpolation=cv2.INTER_CUBIC)
    noisy = smooth + random.normal(0, 3, smooth.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def planes(frame: av.VideoFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = frame.to_ndarray()
    height, width = frame.height, frame.width
    chroma = values[height:].reshape(2, height // 2, width // 2)
    return values[:height], chroma[0], chroma[1]


def exact_rgb(frame: av.VideoFrame, matrix: int, full: bool) -> np.ndarray:
    luma, blue, red = (plane.astype(np.float64) for plane in planes(frame))
    blue, red = (plane.repeat(2, 0).repeat(2, 1) - 128 for plane in (blue, red))
    y = luma / 255 if full else (luma - 16) / 219
    chroma_range = 255 if full else 224
    of_red, of_blue = LUMA[matrix]
    r = y + 2 * (1 - of_red) * red / chroma_range
    b = y + 2 * (1 - of_blue) * blue / chroma_range
    g = (y - of_red * r - of_blue * b) / (1 - of_red - of_blue)
    return np.clip(255 * np.stack([r, g, b], axis=-1), 0, 255)


@pytest.mark.parametrize(("low", "high"), [(10, 80), (20, 235), (100, 250)])
def test_frames_are_encoded_without_becoming_darker(low, high):
    image = scene(low, high)
    r, g, b = np.moveaxis(image / 255, -1, 0)
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    expected = [16 + 219 * y, 128 + 224 * (b - y) / 1.8556, 128 + 224 * (r - y) / 1.5748]
    for plane, exact in zip(planes(to_video_frame(image)), expected, strict=True):
        assert abs(plane.mean() - exact.mean()) < 0.05


@pytest.mark.parametrize("matrix", [1, 5])
@pytest.mark.parametrize("full", [False, True], ids=["studio", "full"])
@pytest.mark.parametrize(("low", "high"), [(10, 80), (20, 235), (100, 250)])
def test_frames_are_decoded_without_becoming_darker(matrix, full, low, high):
    frame = av.VideoFrame.from_ndarray(scene(low, high), format="rgb24").reformat(
        format="yuv420p", dst_colorspace=matrix, dst_color_range="JPEG" if full else "MPEG"
    )
    frame.colorspace = matrix
    frame.color_range = 2 if full else 1
    errors = to_rgb(frame) - exact_rgb(frame, matrix, full)
    assert np.abs(errors.mean(axis=(0, 1))).max() < 0.1


@pytest.mark.parametrize(("tiles", "matrix"), [(1, 5), (6, 1)], ids=["128 rows", "768 rows"])
def test_unspecified_colours_are_those_that_players_take(tiles, matrix):
    image = np.tile(scene(20, 235), (tiles, 1, 1))
    frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(
        format="yuv420p", dst_colorspace=matrix, dst_color_range="MPEG"
    )
    frame.colorspace = 2
    errors = to_rgb(frame) - exact_rgb(frame, matrix, full=False)
    assert np.abs(errors.mean(axis=(0, 1))).max() < 0.1


def test_a_round_trip_keeps_the_mean_of_every_channel():
    image = scene(20, 235)
    errors = to_rgb(to_video_frame(image)) - image.astype(float)
    assert np.abs(errors.mean(axis=(0, 1))).max() < 0.1
