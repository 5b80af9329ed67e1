"""Crops of a frame: their places, as given and where models differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.rgb_images import Image
from vrtspike.system.errors import ConfigError

MIN_WIDTH = 48
_SIXTH = 6
_ASPECT = 3 / 4

_PIXELS = TypeVar("_PIXELS", bound=np.generic)


@dataclass(frozen=True)
class Box:
    """A rectangle of a frame, in pixels from its upper left corner."""

    x: int
    y: int
    width: int
    height: int

    def crop(self, image: NDArray[_PIXELS]) -> NDArray[_PIXELS]:
        """Return the part of an image (H, W, ...) in the rectangle."""
        return image[self.y : self.y + self.height, self.x : self.x + self.width]


@dataclass(frozen=True)
class CropSpec:
    """A crop of a frame of a sequence; ``text`` is the option that names it."""

    sequence: str
    frame: str
    box: Box
    text: str = ""

    def require_inside(self, size: Sequence[int]) -> None:
        """Reject a crop that is not inside its frame.

        Args:
            size: height and width of the frame.

        Raises:
            ConfigError: with the size of the frame.
        """
        height, width = size[:2]
        box = self.box
        if box.x + box.width > width or box.y + box.height > height:
            raise ConfigError(
                f"{self.text}: found a crop from ({box.x}, {box.y}) to ({box.x + box.width}, "
                f"{box.y + box.height}), outside of the frame of {width} x {height} pixels"
            )


def parse_crop(text: str) -> CropSpec:
    """Parse ``SEQUENCE/FRAME:x,y,w,h``.

    Raises:
        ConfigError: if it is something else, or empty.

    >>> parse_crop("GOPR0384_11_00/000047:10,20,64,48").box
    Box(x=10, y=20, width=64, height=48)
    """
    option = f"--crop {text}"
    match = re.fullmatch(r"(.+)/([^/]+):(\d+),(\d+),(\d+),(\d+)", text)
    if match is None or 0 in (int(match[5]), int(match[6])):
        raise ConfigError(
            f"{option}: expected SEQUENCE/FRAME:x,y,w,h in whole pixels, such as "
            "GOPR0384_11_00/000047:320,200,160,120"
        )
    sequence, frame, *numbers = match.groups()
    return CropSpec(sequence, frame, Box(*map(int, numbers)), option)


def default_size(height: int, width: int) -> tuple[int, int]:
    """Return height and width of a chosen crop: a sixth of the frame's width, 3 : 4.

    >>> default_size(720, 1280), default_size(40, 64)
    ((159, 213), (36, 48))
    """
    crop_width = min(width, max(MIN_WIDTH, width // _SIXTH))
    return min(height, int(crop_width * _ASPECT)), crop_width


def differing_box(
    restored: Sequence[Image], blurry: Image, sharp: Image | None, size: tuple[int, int]
) -> Box:
    """Return the crop where models differ most.

    With sharp frames it is the crop with the largest difference between the mean square errors of
    the best and of the worst model, or, with one model, of the blurry frame and the model. Without
    sharp frames it is the one with the largest mean square difference between two models, or
    between the model and the blurry frame.

    Args:
        restored: the restored frame of each model, uint8 (H, W, 3).
        blurry: uint8 (H, W, 3).
        sharp: the sharp frame, if any.
        size: height and width of the crop.
    """
    images = [blurry, *restored] if len(restored) == 1 else list(restored)
    if sharp is not None:
        errors = np.stack([_box_means(_square_error(image, sharp), size) for image in images])
        score = np.ptp(errors, axis=0)
        if len(restored) == 1:
            score = errors[0] - errors[1]
    else:
        pairs = [(a, b) for index, a in enumerate(images) for b in images[index + 1 :]]
        score = np.max([_box_means(_square_error(a, b), size) for a, b in pairs], axis=0)
    y, x = np.unravel_index(int(score.argmax()), score.shape)
    return Box(int(x), int(y), size[1], size[0])


def _square_error(image: Image, other: Image) -> NDArray[np.float64]:
    """Square difference of each pixel, mean over the channels: (H, W)."""
    difference = image.astype(np.float64) - other
    return np.asarray(np.square(difference).mean(axis=-1))


def _box_means(values: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float64]:
    """Means of all boxes of a size, by their upper left corners: (H - h + 1, W - w + 1)."""
    height, width = size
    sums = np.pad(values.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    corners = sums[height:, width:] - sums[:-height, width:]
    corners = corners - sums[height:, :-width] + sums[:-height, :-width]
    return np.asarray(corners / (height * width))
