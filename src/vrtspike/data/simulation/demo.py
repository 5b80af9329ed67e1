"""Demo data: photographs filmed by a simulated hand-held camera, blurred, with simulated spikes.

The photographs come inside the scikit-image package, so nothing is downloaded. Each sequence films
another photograph (:mod:`vrtspike.data.simulation.scenes`).
:mod:`vrtspike.data.simulation.sensor` simulates the sensor as for any high-frame-rate video, and
the result has the Spk-GoPro layout, so that the demo enters the pipeline as real data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.simulation.photographs import read_photograph
from vrtspike.data.simulation.scenes import Camera, film, film_sequence


@dataclass(frozen=True)
class Scene:
    """A sequence of the demo: its photograph, and the width in pixels that it is scaled to."""

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
        count = film_sequence(
            root / scene.split / scene.name,
            read_photograph("skimage", f"data/{scene.photograph}"),
            Camera(height, width, scene.width),
            random,
            exposures=exposures,
        )
        report(f"{scene.split}/{scene.name}: {count} exposures of {scene.photograph}")


def render(
    scene: Scene, random: np.random.Generator, height: int, width: int, frames: int
) -> Iterator[NDArray[np.uint8]]:
    """Film a scene: yields ``frames`` uint8 (height, width, 3) frames at 240 frames a second."""
    photograph = read_photograph("skimage", f"data/{scene.photograph}")
    return film(photograph, Camera(height, width, scene.width), random, frames)
