"""Objects that move by themselves in front of a scene: shapes of one colour, striped, or textured.

Photographs show few thin things of a strong colour, which a network must see moving to restore
colours as sharply as brightness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.float32]
"""(H, W, 3) RGB or (H, W), 0 to 255; of opacities 0 to 1."""

HALF_SIDES = (0.02, 0.3)
"""Smallest and largest half of a side, in heights of a frame."""
MAX_SPEED = 0.16
"""Largest speed of an object, in heights of a frame per exposure."""
STRIPES = (4.0, 24.0)
"""Smallest and largest period of stripes, in pixels."""


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

    texture: Picture
    opacity: Picture
    start: NDArray[np.float64]
    velocity: NDArray[np.float64]
    spin: float

    def draw(self, picture: Picture, frame: int) -> Picture:
        """Return a picture, (H, W, 3), with the object in front of it, at a number of the frame."""
        height, width = picture.shape[:2]
        rows, columns = self.opacity.shape
        angle = self.spin * frame
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.array([[cos, -sin], [sin, cos]])
        middle = np.array([(columns - 1) / 2, (rows - 1) / 2])
        place = self.start + frame * self.velocity
        matrix = np.column_stack([turn, place - turn @ middle])
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


def draw_objects(picture: Picture, objects: Iterable[MovingObject], frame: int) -> Picture:
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
    photograph: Picture,
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


def _random_shape(random: np.random.Generator, height: int) -> Picture:
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
    random: np.random.Generator, photograph: Picture, shape: tuple[int, ...]
) -> Picture:
    """Return a texture: one colour, stripes of two, or a part of a photograph in other colours."""
    rows, columns = shape
    kind = random.integers(3)
    if kind == 0:
        return np.broadcast_to(random_colour(random), (rows, columns, 3)).astype(np.float32)
    if kind == 1:
        return _stripes(random, rows, columns)
    top = int(random.integers(max(photograph.shape[0] - rows, 0) + 1))
    left = int(random.integers(max(photograph.shape[1] - columns, 0) + 1))
    part = photograph[top : top + rows, left : left + columns]
    enlarged = cv2.resize(part, (columns, rows), interpolation=cv2.INTER_LINEAR)
    tint = random_colour(random) / 128
    return np.clip(enlarged * tint, 0, 255).astype(np.float32)


def _stripes(random: np.random.Generator, rows: int, columns: int) -> Picture:
    """Return stripes of two colours at a random angle."""
    period = log_uniform(random, STRIPES)
    angle = random.uniform(0, np.pi)
    y, x = np.mgrid[:rows, :columns]
    phase = 2 * np.pi * (np.cos(angle) * x + np.sin(angle) * y) / period
    # Steep sines are stripes without staircase.
    share = np.clip(0.5 + period / 6 * np.sin(phase), 0, 1)[..., None]
    first, second = random_colour(random), random_colour(random)
    return np.asarray(first + share * (second - first), dtype=np.float32)


def random_colour(random: np.random.Generator) -> NDArray[np.float64]:
    """RGB, 0 to 255, of a uniform hue, from grey to pure, from dark to bright."""
    hue, saturation = random.uniform(0, 6), random.uniform(0, 1)
    value = random.uniform(20, 250)
    # The distance of the hue from red, green and blue, around a circle of length 6.
    distance = np.abs((hue - np.array([0.0, 2.0, 4.0]) + 3) % 6 - 3)
    pure = np.clip(2 - distance, 0, 1)
    return value * (1 - saturation + saturation * pure)
