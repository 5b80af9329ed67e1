"""Draw the pictures of both models and of an exposure for the pages, or compare them.

The numbers in them are those of the presets ``light`` and ``baseline``, and of an exposure of
Spk-GoPro, the mean of eleven frames.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from exposure import exposure_drawing
from networks import spike_nafnet, vrt_spike
from vrtspike.config.loading import load_preset
from vrtspike.data.raw.layouts.spk_gopro import STEPS_PER_SOURCE_FRAME, spk_gopro_exposure
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import atomic_write_text
from vrtspike.system.errors import ConfigError
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "images"
_SOURCE_FRAMES = 11
"""Frames averaged into most of GoPro's blurry frames."""


def main() -> None:
    """Parse the arguments and write or compare the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when out of date")
    arguments = parser.parse_args()
    for name, text in drawings().items():
        path = FOLDER / f"{name}.svg"
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if arguments.check:
            raise ConfigError(f"{path} is out of date; run: python docs/drawings/draw.py")
        atomic_write_text(path, text)
        print(f"wrote {path}", flush=True)


def drawings() -> dict[str, str]:
    """Return all drawings as SVG, by their names."""
    light = load("light")
    exposure = spk_gopro_exposure(_SOURCE_FRAMES * STEPS_PER_SOURCE_FRAME)
    return {
        "spike_nafnet": spike_nafnet(light),
        "vrt_spike": vrt_spike(load("baseline")),
        "exposure": exposure_drawing(exposure, light.DATA.NUM_VOXEL_BINS),
    }


def load(preset: str) -> DeblurringSettings:
    """Load a preset of deblurring."""
    settings = load_preset(ROOT / "config" / "presets" / f"{preset}.yaml")
    assert isinstance(settings, DeblurringSettings)
    return settings


if __name__ == "__main__":
    run_main(main)
