"""Scenes: photographs filmed by a simulated hand-held camera at 240 frames a second.

A background layer and, nearer, a cut-out of the same photograph that moves faster (parallax). The
camera shakes and drifts smoothly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.simulation.objects import MovingObject, Picture, draw_objects, random_object
from vrtspike.data.simulation.sensor import SPK_GOPRO_SENSOR, SimulatedSensor
from vrtspike.data.simulation.sequence import write_sequence

FRAME_RATE = 240.0
FRAMES_PER_EXPOSURE = 11
SMALL_FRAME = (128, 192)
"""Rows and columns of the frames that the sizes of scenes refer to."""

Pose = NDArray[np.float64]
"""Shift along x and y in pixels, turn in radians, log of the zoom."""
Point = tuple[float, float]


def scene_scale(height: int, width: int) -> float:
    """Return factor of a frame's size over :data:`SMALL_FRAME`: larger frames see the same part."""
    rows, columns = SMALL_FRAME
    return max(width / columns, height / rows)


def camera_path(random: np.random.Generator, frames: int, scale: float) -> Pose:
    """Draw a smooth path of hand-held shake.

    Args:
        random: source of the amplitudes, frequencies and phases.
        frames: length at 240 frames a second.
        scale: amplitude of the slowest shift, in pixels.

    Returns:
        (frames, 4), the pose in each of them.
    """
    time = np.arange(frames) / FRAME_RATE

    def sway(low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a movement at a random frequency, and the same a quarter of a period later."""
        phase = 2 * np.pi * (random.uniform(low, high) * time + random.uniform(0, 1))
        return np.sin(phase), np.cos(phase)

    # The slow frequencies of the two axes are equal and a quarter of a period apart, so the camera
    # never stands still.
    x, y = sway(1.3, 1.9)
    for share, low, high in ((0.25, 3.0, 5.0), (0.08, 7.0, 10.0)):
        x += share * sway(low, high)[0]
        y += share * sway(low, high)[0]
    angle = 0.05 * sway(1.0, 3.0)[0]
    zoom = 0.04 * sway(1.0, 3.0)[0]
    return np.stack([scale * x, 0.8 * scale * y, angle, zoom], axis=1)


def film(
    photograph: Picture,
    scene_width: float,
    random: np.random.Generator,
    height: int,
    width: int,
    frames: int,
    objects: Sequence[MovingObject] = (),
) -> Iterator[NDArray[np.uint8]]:
    """Film a photograph.

    Args:
        photograph: (H, W, 3) RGB, 0 to 255.
        scene_width: width in pixels that it is scaled to, for frames of :data:`SMALL_FRAME`.
        random: source of the camera's path and of the cut-out.
        height: rows of a frame.
        width: columns of a frame.
        frames: number of frames.
        objects: objects in front of the scene, with motions of their own.

    Yields:
        uint8 (height, width, 3) frames at 240 frames a second.
    """
    scale = scene_width * scene_scale(height, width) / photograph.shape[1]
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    size = (round(photograph.shape[1] * scale), round(photograph.shape[0] * scale))
    resized = cv2.resize(photograph, size, interpolation=interpolation)
    picture = np.asarray(resized, dtype=np.float32)
    near, alpha = _cut_out(random, picture, height)
    view = ((width - 1) / 2, (height - 1) / 2)
    path = camera_path(random, frames, scale=0.12 * width)
    middle = (picture.shape[1] / 2, picture.shape[0] / 2)
    near_middle = (
        near.shape[1] / 2 + random.uniform(-0.25, 0.25) * width,
        near.shape[0] / 2 + random.uniform(-0.15, 0.15) * height,
    )

    def view_from(
        layer: Picture, pose: Pose, parallax: float, centre: Point, border: int
    ) -> Picture:
        """Return a layer from a pose of the camera, which at rest looks at ``centre``."""
        angle, zoom = pose[2:]
        cos = np.cos(angle)
        sin = np.sin(angle)
        turn = np.exp(-zoom * parallax) * np.array([[cos, -sin], [sin, cos]])
        matrix = np.column_stack([turn, centre + parallax * pose[:2] - turn @ view])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        warped = cv2.warpAffine(layer, matrix, (width, height), flags=flags, borderMode=border)
        return np.asarray(warped, dtype=np.float32)

    for number, pose in enumerate(path):
        far = view_from(picture, pose, 1.0, middle, cv2.BORDER_REFLECT_101)
        mask = view_from(alpha, pose, 1.5, near_middle, cv2.BORDER_CONSTANT)[..., None]
        front = view_from(near, pose, 1.5, near_middle, cv2.BORDER_REFLECT_101)
        scene = draw_objects(far + mask * (front - far), objects, number)
        yield np.rint(np.clip(scene, 0, 255)).astype(np.uint8)


def film_sequence(
    folder: Path,
    photograph: Picture,
    scene_width: float,
    random: np.random.Generator,
    *,
    height: int,
    width: int,
    exposures: int,
    sensor: SimulatedSensor = SPK_GOPRO_SENSOR,
    objects: int = 0,
) -> int:
    """Film a photograph, and write the sequence in the Spk-GoPro layout in place of a former one.

    Args:
        folder: the sequence's folder.
        photograph: (H, W, 3) RGB, 0 to 255.
        scene_width: as for :func:`film`.
        random: source of the camera's path, of the cut-out and of the sensor's initial charge.
        height: rows of a frame, an even number.
        width: columns of a frame, an even number.
        exposures: blurry frames.
        sensor: the simulated sensor, whose seed is drawn.
        objects: number of objects with a motion of their own.

    Returns:
        the number of exposures.

    Raises:
        DataError: if a size is odd, or there are no exposures.
    """
    # One more frame is needed: the last interval of the last exposure is interpolated towards it.
    count = exposures * FRAMES_PER_EXPOSURE + 1
    drawn = [
        random_object(
            random,
            photograph,
            height=height,
            width=width,
            frames=count,
            frames_per_exposure=FRAMES_PER_EXPOSURE,
        )
        for _ in range(objects)
    ]
    frames = film(photograph, scene_width, random, height, width, count, drawn)
    written, _ = write_sequence(
        folder,
        frames,
        frames_per_exposure=FRAMES_PER_EXPOSURE,
        sensor=sensor.model_copy(update={"SEED": int(random.integers(2**31))}),
        replace=True,
    )
    return written


def _cut_out(random: np.random.Generator, picture: Picture, height: int) -> tuple[Picture, Picture]:
    """Return the near layer: the picture turned around, and a blob as its opacity."""
    layer = np.ascontiguousarray(picture[::-1, ::-1])
    rows, columns = layer.shape[:2]
    y, x = np.mgrid[:rows, :columns]
    angle = np.arctan2(y - rows / 2, x - columns / 2)
    radius = np.full(angle.shape, 0.24 * height)
    for lobes in (2, 3, 5):
        share = random.uniform(0.1, 0.3) / lobes
        radius *= 1 + share * np.sin(lobes * angle + random.uniform(0, 2 * np.pi))
    distance = np.hypot(y - rows / 2, x - columns / 2)
    # Edges are two pixels wide: sharp, but without staircase.
    return layer, np.clip((radius - distance) / 2 + 0.5, 0, 1).astype(np.float32)
