"""The homography from a spike sensor to the frames of a camera next to it.

Features (SIFT, RANSAC) give a first estimate and the enhanced correlation coefficient refines it,
both of OpenCV.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.checks.similarity import band_pass
from vrtspike.io.images import shrink
from vrtspike.system.errors import DataError

MIN_MATCHES = 12
"""Minimum features that fit one homography."""

_MAX_DISTANCE_RATIO = 0.8
"""Maximum distance of the best match of a feature over that of the second best."""
_RANSAC_PIXELS = 2.0
_BORDER = 8
"""Pixels along each border where optical flow is not measured."""
MIN_SIDE = 3 * _BORDER
"""Smallest side of pictures whose optical flow is measured; OpenCV's fails below 16 pixels."""

Matrix = NDArray[np.float64]
Points = NDArray[np.float32]


def find_homography(gray: NDArray[np.float32], rate: NDArray[np.float32]) -> Matrix:
    """Find the homography from the sensor to the frame.

    Args:
        gray: mean frame (H, W) of a static scene.
        rate: mean spikes (h, w) of it.

    Returns:
        float64 (3, 3), from (x, y, 1) of a sensor pixel's centre to that of a frame's pixel.

    Raises:
        DataError: if too few features of both fit together.
    """
    scale = max(1.0, min(gray.shape[0] / rate.shape[0], gray.shape[1] / rate.shape[1]))
    small = shrink(gray, round(gray.shape[0] / scale), round(gray.shape[1] / scale))
    sensor_points, frame_points = _match_features(to_bytes(rate), to_bytes(small))
    inliers = 0
    estimate = None
    if len(sensor_points) >= MIN_MATCHES:
        estimate, mask = cv2.findHomography(sensor_points, frame_points, cv2.RANSAC, _RANSAC_PIXELS)
        if estimate is not None:
            inliers = int(mask.sum())
    if estimate is None or inliers < MIN_MATCHES:
        raise DataError(
            f"static scene: {inliers} features of frames and spikes fit together, expected at "
            f"least {MIN_MATCHES}: film a scene with many details, both cameras in focus; or the "
            f"sensor has another size than {rate.shape[0]} x {rate.shape[1]}"
        )
    template = band_pass(_stretch(rate))
    image = band_pass(_stretch(small))
    start = estimate.astype(np.float32)
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 200, 1e-7)
    try:
        # By the correlation of all pixels.
        _, refined = cv2.findTransformECC(template, image, start, cv2.MOTION_HOMOGRAPHY, criteria)
    except cv2.error as error:  # it does not converge
        raise DataError(
            f"static scene: {inliers} features of frames and spikes fit together, but not their "
            "pixels: is it the same scene, in the same light?"
        ) from error
    homography: Matrix = scaling(gray.shape, small.shape) @ refined.astype(np.float64)
    return homography / homography[2, 2]


def _match_features(rate: NDArray[np.uint8], frame: NDArray[np.uint8]) -> tuple[Points, Points]:
    """Return places (N, 2) of the features that two pictures share, in one and in the other."""
    detector = cv2.SIFT.create(contrastThreshold=0.02)
    rate_points, rate_features = detector.detectAndCompute(rate, None)
    frame_points, frame_features = detector.detectAndCompute(frame, None)
    matches = []
    if len(rate_points) >= 2 and len(frame_points) >= 2:
        candidates = cv2.BFMatcher().knnMatch(rate_features, frame_features, k=2)
        for best, second in candidates:
            if best.distance < _MAX_DISTANCE_RATIO * second.distance:
                matches.append(best)
    rate_positions = [rate_points[match.queryIdx].pt for match in matches]
    frame_positions = [frame_points[match.trainIdx].pt for match in matches]
    return np.array(rate_positions, np.float32), np.array(frame_positions, np.float32)


def warp_to_sensor(
    picture: NDArray[Any], homography: Matrix, sensor: Sequence[int]
) -> NDArray[Any]:
    """Return a frame on the sensor's grid, at about its own number of pixels.

    Args:
        picture: (H, W) or (H, W, 3).
        homography: homography from the sensor to the frame.
        sensor: rows and columns of the sensor.
    """
    scale = max(1, round(min(picture.shape[0] / sensor[0], picture.shape[1] / sensor[1])))
    height = scale * sensor[0]
    width = scale * sensor[1]
    matrix = homography @ scaling(sensor, (height, width))
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    warped = cv2.warpPerspective(
        picture, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(warped)


def scaling(target: Sequence[int], source: Sequence[int]) -> Matrix:
    """Return the homography between two pictures with the same borders.

    Args:
        target: rows and columns of the picture that the homography maps to.
        source: rows and columns of the picture that it begins from.
    """
    across = target[1] / source[1]
    down = target[0] / source[0]
    return np.array([[across, 0, (across - 1) / 2], [0, down, (down - 1) / 2], [0, 0, 1]])


def displacement(picture: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """Return the median length of the optical flow where the reference has detail.

    Raises:
        DataError: if the pictures are too small.
    """
    height, width = reference.shape
    if min(height, width) < MIN_SIDE:
        raise DataError(
            f"displacement: found pictures of {height} x {width} sensor pixels, expected at least "
            f"{MIN_SIDE} x {MIN_SIDE}; check the sensor's size"
        )
    detail = band_pass(_stretch(reference))
    moved = to_bytes(band_pass(_stretch(picture)))
    flow_finder = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    flow = flow_finder.calc(moved, to_bytes(detail), None)  # type: ignore[call-overload]
    inside = (slice(_BORDER, -_BORDER), slice(_BORDER, -_BORDER))
    length = np.hypot(flow[..., 0], flow[..., 1])[inside]
    strength = np.abs(detail)[inside]
    return float(np.median(length[strength >= np.percentile(strength, 75)]))


def covered_share(homography: Matrix, frame: Sequence[int], sensor: Sequence[int]) -> float:
    """Share of the sensor's pixels whose centres lie in the frame, to half a pixel."""
    rows, columns = np.mgrid[: sensor[0], : sensor[1]]
    points = homography @ np.stack([columns.ravel(), rows.ravel(), np.ones(columns.size)])
    x, y = points[:2] / points[2]
    is_inside = (x >= -1) & (y >= -1) & (x <= frame[1]) & (y <= frame[0])
    return float(is_inside.mean())


def _stretch(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """Stretch values to 0 to 1; single bright or dark pixels do not count."""
    low, high = np.percentile(picture, (0.5, 99.5))
    return np.clip((picture - low) / max(high - low, 1e-6), 0, 1).astype(np.float32)


def to_bytes(picture: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Stretch values to 0 to 255."""
    return np.rint(255 * _stretch(picture)).astype(np.uint8)
