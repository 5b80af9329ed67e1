"""Draw the picture of README: a blurry frame, restored with the bundled weights, and sharp.

The scene is one of the demo's test scenes, filmed anew and larger, which no training has seen. The
picture is ``docs/images/general.png``; the mean PSNR of the scene's frames is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import vrtspike
from experiments import ROOT
from vrtspike.data.simulation.demo import SCENES, render
from vrtspike.data.simulation.scenes import FRAMES_PER_EXPOSURE
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.io.images import write_png
from vrtspike.metrics.psnr import psnr
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main

SCENE = "GOPR0102_11_00"
SEED = 1
SIZE = (256, 384)
"""Rows and columns of the frames; the sensor has half of them."""
EXPOSURES = 4
SHOWN = 1
"""Index of the frame that is shown."""
GAP = 8
"""Columns of white between the frames."""


def film(folder: Path) -> None:
    """Write frames and spikes of the scene."""
    (scene,) = (scene for scene in SCENES if scene.name == SCENE)
    frames = render(scene, np.random.default_rng(SEED), *SIZE, EXPOSURES * FRAMES_PER_EXPOSURE + 1)
    sensor = SimulatedSensor(SEED=SEED)
    write_sequence(folder, frames, frames_per_exposure=FRAMES_PER_EXPOSURE, sensor=sensor)


def main() -> None:
    """Film, restore, measure, and draw."""
    argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter).parse_args()
    with TemporaryDirectory() as name:
        clip = Path(name) / SCENE
        film(clip)
        blurry = vrtspike.read_frames(clip / "blur")
        sharp = vrtspike.read_frames(clip / "sharp")
        restored = vrtspike.restore(clip / "blur", clip / "spike")
    for title, frames in (("blurry", blurry), ("restored", restored)):
        mean = np.mean([psnr(frame, truth) for frame, truth in zip(frames, sharp, strict=True)])
        print(f"{title}: {mean:.1f} dB")
    gap = np.full((SIZE[0], GAP, 3), 255, dtype=np.uint8)
    panels = [blurry[SHOWN], gap, restored[SHOWN], gap, sharp[SHOWN]]
    write_png(ROOT / "docs" / "images" / "general.png", np.concatenate(panels, axis=1))


if __name__ == "__main__":
    run_main(main)
