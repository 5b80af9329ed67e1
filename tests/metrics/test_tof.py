"""Optical-flow metric tOF: sign, size, border, agreement with the published program."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from vrtspike.metrics.tof import flow_distance, optical_flow, tof

SIZE = (96, 128)


@pytest.fixture(scope="module")
def texture() -> np.ndarray:
    """Smooth noise, larger than a frame."""
    rng = np.random.default_rng(1)
    plane = cv2.GaussianBlur(rng.uniform(0, 255, (160, 192, 3)), (0, 0), 2.5)
    return np.clip((plane - plane.mean()) * 5 + 128, 0, 255).astype(np.uint8)


def cut(texture: np.ndarray, right: int, down: int) -> np.ndarray:
    """A frame in which the texture has moved by a number of pixels."""
    top, left = 32 - down, 32 - right
    return np.ascontiguousarray(texture[top : top + SIZE[0], left : left + SIZE[1]])


def test_the_flow_is_the_motion_to_the_right_and_down(texture):
    flow = optical_flow(cut(texture, 0, 0), cut(texture, 3, -2))
    assert flow.shape == (*SIZE, 2)
    inside = flow[16:-16, 16:-16]
    np.testing.assert_allclose(np.median(inside, axis=(0, 1)), [3, -2], atol=0.1)


def test_the_value_is_the_length_of_the_difference_of_motions(texture):
    start = cut(texture, 0, 0)
    right = [start, cut(texture, 3, 0)]
    assert tof(right, right) == 0
    assert tof([start, start], right) == pytest.approx(3, abs=0.15)
    assert tof([start, cut(texture, 0, 4)], right) == pytest.approx(5, abs=0.2)
    assert tof([start, cut(texture, 5, 0)], right) == pytest.approx(2, abs=0.15)


def test_the_value_is_that_of_the_published_program(texture):
    """Chu et al.: RGB to grey, Farneback (0.5, 3, 15, 3, 5, 1.2), mean Euclidean length."""
    rng = np.random.default_rng(2)
    sharp = [cut(texture, 0, 0), cut(texture, 2, 1)]
    tint = np.array([1.0, 0.6, 0.2])  # so that red and blue count differently
    sharp = [(image * tint).astype(np.uint8) for image in sharp]
    noise = rng.normal(0, 20, (2, *SIZE, 3))
    restored = list(np.clip(sharp + noise, 0, 255).astype(np.uint8))
    flows = []
    for frames in (restored, sharp):
        gray = [cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) for frame in frames]
        flows.append(cv2.calcOpticalFlowFarneback(*gray, None, 0.5, 3, 15, 3, 5, 1.2, 0))
    # 96 and 128 pixels: blocks of 32, and 8 pixels or more on either side.
    difference = (flows[0] - flows[1])[16:80, 16:112]
    expected = np.hypot(difference[..., 0], difference[..., 1]).mean()
    assert expected > 0.05
    assert tof(restored, sharp) == pytest.approx(expected, rel=1e-5)


def test_the_border_is_not_measured():
    still = np.zeros((64, 96, 2), np.float32)
    spoiled = still.copy()
    spoiled[:16], spoiled[48:], spoiled[:, :16], spoiled[:, 80:] = 9, 9, 9, 9
    assert flow_distance(spoiled, still) == 0
    for row, column in ((16, 16), (47, 79)):
        inside = still.copy()
        inside[row, column] = (3, -4)
        assert flow_distance(inside, still) == pytest.approx(5 / (32 * 64))
