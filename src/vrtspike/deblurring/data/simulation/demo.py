"""Demo data: photographs filmed by a simulated hand-held camera, blurred, with simulated spikes.

The photographs come inside the scikit-image package, so nothing is downloaded. Each sequence shows
another photograph: a background layer and, nearer, a cut-out of the same photograph that moves
faster (parallax). The camera shakes and drifts smoothly at 240 frames a second; everything after
that is what :mod:`vrtspike.deblurring.data.simulation.sensor` does with any high-frame-rate video,
written in the Spk-GoPro layout, so that the demo enters the pipeline as real
data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import skimage
from numpy.typing import NDArray

from vrtspike.deblurring.data.simulation.sensor import Simulation
from vrtspike.deblurring.data.simulation.sequence import write_sequence
from vrtspike.system.errors import DataError

FRAME_RATE = 240.0
FRAMES_PER_EXPOSURE = 11

Picture = NDArray[np.float32]
"""(H, W, 3) RGB or (H, W), 0 to 255; of opacities 0 to 1."""
Pose = NDArray[np.float64]
"""Shift along x and y in pixels, turn in radians, log of the zoom."""
Point = tuple[float, float]


@dataclass(frozen=True)
class Scene:
    """One demo sequence: which photograph, and the width in pixels it is scaled to."""

    split: str
    name: str
    photograph: str
    width: int


SCENES = (
    Scene("train", "GOPR0001_11_00", "astronaut.png", 440),
    Scene("train", "GOPR0002_11_00", "coffee.png", 480),
    Scene("train", "GOPR0003_11_00", "ihc.png", 420),
    Scene("train", "GOPR0004_11_00", "gravel.png", 480),
    Scene("train", "GOPR0005_11_00", "hubble_deep_field.jpg", 480),
    Scene("train", "GOPR0006_11_00", "brick.png", 420),
    Scene("train", "GOPR0007_11_00", "grass.png", 480),
    Scene("train", "GOPR0008_11_00", "coins.png", 384),
    Scene("test", "GOPR0101_11_00", "motorcycle_left.png", 480),
    Scene("test", "GOPR0102_11_00", "chelsea.png", 340),
)
"""Rich photographs, the test ones of other kinds of scene than any training one."""


def make_demo_data(
    root: Path,
    *,
    seed: int = 0,
    height: int = 128,
    width: int = 192,
    exposures: int = 8,
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Write the demo data set.

    Args:
        root: the data set's folder; ``{train,test}/<sequence>/{blur,sharp,spike}`` appear in it.
        seed: decides camera paths, cut-outs and the sensor's initial charge.
        height: rows of a frame, an even number.
        width: columns of a frame, an even number.
        exposures: blurry frames per sequence.
        report: called with a line of text after each sequence.

    Raises:
        DataError: if a size is odd, or there are no exposures.
    """
    for index, scene in enumerate(SCENES):
        random = np.random.default_rng([seed, index])
        # One frame more: the last interval of the last exposure is interpolated towards it.
        frames = render(scene, random, height, width, exposures * FRAMES_PER_EXPOSURE + 1)
        count, _ = write_sequence(
            root / scene.split / scene.name,
            frames,
            frames_per_exposure=FRAMES_PER_EXPOSURE,
            how=Simulation(SEED=int(random.integers(2**31))),
            replace=True,
        )
        report(f"{scene.split}/{scene.name}: {count} exposures of {scene.photograph}")


def load_photograph(name: str) -> Picture:
    """Read a photograph of the scikit-image package: float32 (H, W, 3) RGB, 0 to 255."""
    path = Path(skimage.__file__).parent / "data" / name
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise DataError(f"{path}: photograph missing; reinstall scikit-image")
    return np.ascontiguousarray(image[:, :, ::-1], dtype=np.float32)


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
        """A movement at a random frequency, and the same a quarter of a period later."""
        phase = 2 * np.pi * (random.uniform(low, high) * time + random.uniform(0, 1))
        return np.sin(phase), np.cos(phase)

    # Both axes share the slow frequency a quarter apart, so the camera never stands still.
    x, y = sway(1.3, 1.9)
    for share, low, high in ((0.25, 3.0, 5.0), (0.08, 7.0, 10.0)):
        x += share * sway(low, high)[0]
        y += share * sway(low, high)[0]
    angle, zoom = 0.05 * sway(1.0, 3.0)[0], 0.04 * sway(1.0, 3.0)[0]
    return np.stack([scale * x, 0.8 * scale * y, angle, zoom], axis=1)


def render(
    scene: Scene, random: np.random.Generator, height: int, width: int, frames: int
) -> Iterator[NDArray[np.uint8]]:
    """Film a scene: yields ``frames`` uint8 (height, width, 3) frames at 240 frames a second."""
    photograph = load_photograph(scene.photograph)
    # Scenes are sized for frames 192 wide; other frames see the same part of the photograph.
    scale = scene.width * max(width / 192, height / 128) / photograph.shape[1]
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

    def seen(layer: Picture, pose: Pose, parallax: float, centre: Point, border: int) -> Picture:
        """A layer from a pose, by the point that the resting camera looks at; nearer moves more."""
        angle, zoom = pose[2:]
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.exp(-zoom * parallax) * np.array([[cos, -sin], [sin, cos]])
        matrix = np.column_stack([turn, centre + parallax * pose[:2] - turn @ view])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        warped = cv2.warpAffine(layer, matrix, (width, height), flags=flags, borderMode=border)
        return np.asarray(warped, dtype=np.float32)

    for pose in path:
        far = seen(picture, pose, 1.0, middle, cv2.BORDER_REFLECT_101)
        mask = seen(alpha, pose, 1.5, near_middle, cv2.BORDER_CONSTANT)[..., None]
        front = seen(near, pose, 1.5, near_middle, cv2.BORDER_REFLECT_101)
        yield np.rint(np.clip(far + mask * (front - far), 0, 255)).astype(np.uint8)


def _cut_out(random: np.random.Generator, picture: Picture, height: int) -> tuple[Picture, Picture]:
    """The near layer: the picture turned around, and its opacity, a blob about its centre."""
    layer = np.ascontiguousarray(picture[::-1, ::-1])
    rows, columns = layer.shape[:2]
    y, x = np.mgrid[:rows, :columns]
    angle = np.arctan2(y - rows / 2, x - columns / 2)
    radius = np.full(angle.shape, 0.24 * height)
    for lobes in (2, 3, 5):
        share = random.uniform(0.1, 0.3) / lobes
        radius *= 1 + share * np.sin(lobes * angle + random.uniform(0, 2 * np.pi))
    distance = np.hypot(y - rows / 2, x - columns / 2)
    # An edge two pixels wide: sharp, but without staircase.
    return layer, np.clip((radius - distance) / 2 + 0.5, 0, 1).astype(np.float32)
