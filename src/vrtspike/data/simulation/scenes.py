"""Scenes: photographs filmed by a simulated hand-held camera at 240 frames a second.

A background layer and, nearer, a cut-out of the same photograph that moves faster (parallax). The
camera shakes and drifts smoothly. Objects may move by themselves in front of the scene: shapes of
one colour, striped, or textured. Photographs show few thin things of a strong colour, which a
network must see moving to restore colours as sharply as brightness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.simulation.sensor import SPK_GOPRO_SENSOR, SimulatedSensor
from vrtspike.data.simulation.sequence import write_sequence

LinearPicture = NDArray[np.float32]
"""(H, W, 3) RGB or (H, W), 0 to 255; of opacities 0 to 1."""

FRAME_RATE = 240.0
FRAMES_PER_EXPOSURE = 11
SMALL_FRAME = (128, 192)
"""Rows and columns of the frames that the sizes of scenes refer to."""

Pose = NDArray[np.float64]
"""Shift along x and y in pixels, turn in radians, log of the zoom."""
Point = tuple[float, float]

HALF_SIDES = (0.02, 0.3)
"""Smallest and largest half of a side, in heights of a frame."""
MAX_SPEED = 0.16
"""Largest speed of an object, in heights of a frame per exposure."""
STRIPES = (4.0, 24.0)
"""Smallest and largest period of stripes, in pixels."""


@dataclass(frozen=True)
class Camera:
    """A simulated camera in front of a photograph.

    Attributes:
        height: rows of a frame.
        width: columns of a frame.
        scene_width: width in pixels that the photograph is scaled to, for frames of
            :data:`SMALL_FRAME`.
        sensor: the simulated spike sensor.
    """

    height: int
    width: int
    scene_width: float
    sensor: SimulatedSensor = SPK_GOPRO_SENSOR


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
    photograph: LinearPicture,
    camera: Camera,
    random: np.random.Generator,
    frames: int,
    objects: Sequence[MovingObject] = (),
) -> Iterator[NDArray[np.uint8]]:
    """Film a photograph.

    Args:
        photograph: (H, W, 3) RGB, 0 to 255.
        camera: size of the frames and of the scene.
        random: source of the camera's path and of the cut-out.
        frames: number of frames.
        objects: objects in front of the scene, with motions of their own.

    Yields:
        uint8 (height, width, 3) frames at 240 frames a second.
    """
    height = camera.height
    width = camera.width
    scale = camera.scene_width * scene_scale(height, width) / photograph.shape[1]
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
        layer: LinearPicture, pose: Pose, parallax: float, center: Point, border: int
    ) -> LinearPicture:
        """Return a layer from a pose of the camera, which at rest looks at ``center``."""
        angle, zoom = pose[2:]
        cos = np.cos(angle)
        sin = np.sin(angle)
        turn = np.exp(-zoom * parallax) * np.array([[cos, -sin], [sin, cos]])
        matrix = np.column_stack([turn, center + parallax * pose[:2] - turn @ view])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        warped = cv2.warpAffine(layer, matrix, (width, height), flags=flags, borderMode=border)
        return np.asarray(warped, dtype=np.float32)

    for index, pose in enumerate(path):
        far = view_from(picture, pose, 1.0, middle, cv2.BORDER_REFLECT_101)
        mask = view_from(alpha, pose, 1.5, near_middle, cv2.BORDER_CONSTANT)[..., None]
        front = view_from(near, pose, 1.5, near_middle, cv2.BORDER_REFLECT_101)
        scene = draw_objects(far + mask * (front - far), objects, index)
        yield np.rint(np.clip(scene, 0, 255)).astype(np.uint8)


def film_sequence(
    folder: Path,
    photograph: LinearPicture,
    camera: Camera,
    random: np.random.Generator,
    *,
    exposures: int,
    objects: int = 0,
) -> int:
    """Film a photograph, and write the sequence in the Spk-GoPro layout in place of a former one.

    Args:
        folder: the sequence's folder.
        photograph: (H, W, 3) RGB, 0 to 255.
        camera: the camera, with even numbers of rows and columns; the seed of its sensor is drawn.
        random: source of the camera's path, of the cut-out and of the sensor's initial charge.
        exposures: blurry frames.
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
            height=camera.height,
            width=camera.width,
            frames=count,
            frames_per_exposure=FRAMES_PER_EXPOSURE,
        )
        for _ in range(objects)
    ]
    frames = film(photograph, camera, random, count, drawn)
    written, _ = write_sequence(
        folder,
        frames,
        frames_per_exposure=FRAMES_PER_EXPOSURE,
        sensor=camera.sensor.model_copy(update={"SEED": int(random.integers(2**31))}),
        replace=True,
    )
    return written


def _cut_out(
    random: np.random.Generator, picture: LinearPicture, height: int
) -> tuple[LinearPicture, LinearPicture]:
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
    # Edges are two pixels wide: sharp, but antialiased.
    return layer, np.clip((radius - distance) / 2 + 0.5, 0, 1).astype(np.float32)


@dataclass(frozen=True)
class MovingObject:
    """An object and its motion.

    Attributes:
        texture: (h, w, 3) RGB, 0 to 255.
        opacity: (h, w), 0 to 1, 0 along its border.
        start: x and y of its centre in the first frame, in pixels of the frame.
        velocity: along x and y, in pixels per frame.
        spin: turn per frame, in radians.
    """

    texture: LinearPicture
    opacity: LinearPicture
    start: NDArray[np.float64]
    velocity: NDArray[np.float64]
    spin: float

    def draw(self, picture: LinearPicture, frame: int) -> LinearPicture:
        """Return a picture, (H, W, 3), with the object in front of it, at a number of the frame."""
        height, width = picture.shape[:2]
        rows, columns = self.opacity.shape
        angle = self.spin * frame
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.array([[cos, -sin], [sin, cos]])
        middle = np.array([(columns - 1) / 2, (rows - 1) / 2])
        position = self.start + frame * self.velocity
        matrix = np.column_stack([turn, position - turn @ middle])
        mask = cv2.warpAffine(self.opacity, matrix, (width, height), flags=cv2.INTER_LINEAR)
        front = cv2.warpAffine(
            self.texture,
            matrix,
            (width, height),
            flags=cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REPLICATE,
        )
        blended = picture + mask[..., None] * (front - picture)
        return np.asarray(blended, dtype=np.float32)


def draw_objects(
    picture: LinearPicture, objects: Iterable[MovingObject], frame: int
) -> LinearPicture:
    """Return a picture, (H, W, 3), with objects in front of it, the last one nearest."""
    for item in objects:
        picture = item.draw(picture, frame)
    return picture


def log_uniform(
    random: np.random.Generator, bounds: tuple[float, float], size: int | None = None
) -> NDArray[np.float64]:
    """Draw numbers whose logarithms are uniform.

    Args:
        random: source of the numbers.
        bounds: the smallest and the largest number.
        size: size of the result; None for a single number.
    """
    low, high = np.log(bounds)
    return np.asarray(np.exp(random.uniform(low, high, size)))


def random_object(
    random: np.random.Generator,
    photograph: LinearPicture,
    *,
    height: int,
    width: int,
    frames: int,
    frames_per_exposure: int,
) -> MovingObject:
    """Draw an object whose centre is within the frame half-way through the sequence.

    Args:
        random: source of its shape, texture, place and motion.
        photograph: (H, W, 3) RGB, 0 to 255, whose parts are textures.
        height: rows of a frame.
        width: columns of a frame.
        frames: number of frames of the sequence.
        frames_per_exposure: number of these frames in an exposure.
    """
    opacity = _random_shape(random, height)
    speed = random.uniform(0, MAX_SPEED) * height / frames_per_exposure
    direction = random.uniform(0, 2 * np.pi)
    velocity = speed * np.array([np.cos(direction), np.sin(direction)])
    middle = random.uniform(0, 1, 2) * (width, height)
    return MovingObject(
        texture=_random_texture(random, photograph, opacity.shape),
        opacity=opacity,
        start=middle - velocity * frames / 2,
        velocity=velocity,
        spin=random.normal(0, 0.004),
    )


def _random_shape(random: np.random.Generator, height: int) -> LinearPicture:
    """Return the opacity of a random ellipse or rounded rectangle, turned at random."""
    first, second = height * log_uniform(random, HALF_SIDES, 2)
    power = random.choice((2.0, 10.0))
    reach = int(np.ceil(np.hypot(first, second))) + 2
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(np.float64)
    angle = random.uniform(0, np.pi)
    along = np.abs(np.cos(angle) * x + np.sin(angle) * y) / first
    across = np.abs(np.cos(angle) * y - np.sin(angle) * x) / second
    distance = (along**power + across**power) ** (1 / power)
    slope = np.hypot(*np.gradient(distance))
    # Coverage of pixels by the outline, to the first order: an edge is a pixel wide.
    inside = (1 - distance) / np.maximum(slope, 1e-6)
    return np.clip(inside + 0.5, 0, 1).astype(np.float32)


def _random_texture(
    random: np.random.Generator, photograph: LinearPicture, shape: tuple[int, ...]
) -> LinearPicture:
    """Return a texture: one colour, stripes of two, or a part of a photograph in other colours."""
    rows, columns = shape
    kind = random.integers(3)
    if kind == 0:
        return np.broadcast_to(random_color(random), (rows, columns, 3)).astype(np.float32)
    if kind == 1:
        return _stripes(random, rows, columns)
    top = int(random.integers(max(photograph.shape[0] - rows, 0) + 1))
    left = int(random.integers(max(photograph.shape[1] - columns, 0) + 1))
    part = photograph[top : top + rows, left : left + columns]
    enlarged = cv2.resize(part, (columns, rows), interpolation=cv2.INTER_LINEAR)
    tint = random_color(random) / 128
    return np.clip(enlarged * tint, 0, 255).astype(np.float32)


def _stripes(random: np.random.Generator, rows: int, columns: int) -> LinearPicture:
    """Return stripes of two colours at a random angle."""
    period = log_uniform(random, STRIPES)
    angle = random.uniform(0, np.pi)
    y, x = np.mgrid[:rows, :columns]
    phase = 2 * np.pi * (np.cos(angle) * x + np.sin(angle) * y) / period
    # Clipped steep sines give antialiased stripes.
    share = np.clip(0.5 + period / 6 * np.sin(phase), 0, 1)[..., None]
    first, second = random_color(random), random_color(random)
    return np.asarray(first + share * (second - first), dtype=np.float32)


def random_color(random: np.random.Generator) -> NDArray[np.float64]:
    """RGB, 0 to 255, of a uniform hue, from grey to pure, from dark to bright."""
    hue, saturation = random.uniform(0, 6), random.uniform(0, 1)
    value = random.uniform(20, 250)
    # The distance of the hue from red, green and blue, around a circle of length 6.
    distance = np.abs((hue - np.array([0.0, 2.0, 4.0]) + 3) % 6 - 3)
    pure = np.clip(2 - distance, 0, 1)
    return value * (1 - saturation + saturation * pure)
