"""How much a trained model loses when the spike sensor is another one than in training.

The test scenes of the demo are filmed again and seen by other sensors: of other thresholds, with
dark counts, dead pixels, flipped bits, and with spikes that come some steps early or late. The
model and its statistics stay as they were trained; only the gain of each sequence is taken anew, as
it is for any data. PSNR of all test frames; results in ``benchmarks/results/robustness.json`` and
in ``docs/robustness.md``.

Examples:
    snakemake --cores 2 demo
    python benchmarks/robustness.py
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from generated_page import require_current
from numpy.typing import NDArray
from torch import nn

from vrtspike import cli
from vrtspike.deblurring.data.clips.dataset import SequenceEntry, load_dataset
from vrtspike.deblurring.data.exposure import STEPS_PER_FRAME, bin_table
from vrtspike.deblurring.data.simulation.demo import FRAMES_PER_EXPOSURE, SCENES, render
from vrtspike.deblurring.data.simulation.sensor import THETA, simulate_spikes
from vrtspike.deblurring.data.store.gain import GainMeter
from vrtspike.deblurring.data.store.reading import open_store
from vrtspike.deblurring.data.store.voxels import Statistics, voxelize
from vrtspike.deblurring.evaluation.restore import load_model, restore_frames, tiling_for
from vrtspike.deblurring.evaluation.sources import SourceFrames, StoredSequence
from vrtspike.deblurring.metrics.psnr import psnr
from vrtspike.deblurring.settings import Settings, deblurring_settings
from vrtspike.files import atomic_write_text, read_json, write_json
from vrtspike.runs.published import read_published

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "robustness.json"
PAGE = ROOT / "docs" / "robustness.md"
EXPOSURE = FRAMES_PER_EXPOSURE * STEPS_PER_FRAME

Spikes = NDArray[np.uint8]
TRAINED = f"threshold {THETA:g}, as in training"


@dataclass(frozen=True)
class Sensor:
    """A sensor that differs from that of the training data.

    Attributes:
        theta: threshold, in units of full-scale grey.
        dark: probability of a false spike for each pixel and step.
        dead: share of the pixels that never fire.
        flipped: share of the bits that are flipped.
        shift: steps that the spikes come late.
    """

    theta: float = THETA
    dark: float = 0.0
    dead: float = 0.0
    flipped: float = 0.0
    shift: int = 0

    def see(self, frames: Sequence[NDArray[np.uint8]], seed: int) -> Spikes:
        """Spikes of the frames but the last: uint8 (steps, h, w)."""
        spikes = simulate_spikes(frames, theta=self.theta, seed=seed)
        random = np.random.default_rng(seed)
        if self.dark:
            spikes |= random.random(spikes.shape, dtype=np.float32) < self.dark
        if self.dead:
            spikes[:, random.random(spikes.shape[1:]) < self.dead] = 0
        if self.flipped:
            spikes ^= random.random(spikes.shape, dtype=np.float32) < self.flipped
        # The first or last steps stand still where there are none before or after them.
        steps = np.arange(len(spikes) - STEPS_PER_FRAME) - self.shift
        return spikes[steps.clip(0, len(spikes) - 1)]


SENSORS: dict[str, Sensor] = {
    TRAINED: Sensor(),
    "threshold 1": Sensor(theta=1.0),
    "threshold 4": Sensor(theta=4.0),
    "1 % dark counts": Sensor(dark=0.01),
    "1 % dead pixels": Sensor(dead=0.01),
    "1 % flipped bits": Sensor(flipped=0.01),
    **{f"{abs(n)} steps {'early' if n < 0 else 'late'}": Sensor(shift=n) for n in (-4, -2, 2, 4)},
}


class SeenAgain:
    """Stored frames with the spikes of another sensor, as a source for restoring.

    Args:
        stored: the sequence.
        spikes: uint8 (exposures x T, h, w).
        bins: K.
    """

    def __init__(self, stored: StoredSequence, spikes: Spikes, bins: int) -> None:
        self.names, self.size, self.ratio = stored.names, stored.size, stored.ratio
        self._stored = stored
        exposures = spikes.reshape(len(self.names), EXPOSURE, *spikes.shape[1:])
        self._counts = np.stack([voxelize(exposure, bins) for exposure in exposures])

    def read(self, frames: slice) -> SourceFrames:
        """Consecutive frames and their counts."""
        counts = self._counts[frames]
        steps = bin_table([EXPOSURE] * len(counts), counts.shape[1])
        return SourceFrames(self._stored.read(frames).blur, counts, steps)

    def gain(self) -> float:
        """The gain of this sensor."""
        meter = GainMeter()
        blurry = self.read(slice(0, len(self.names))).blur
        for blur, counts in zip(blurry, self._counts, strict=True):
            meter.add(blur, counts, EXPOSURE)
        return meter.gain("sequence")


def film(entry: SequenceEntry, demo_seed: int) -> tuple[list[NDArray[np.uint8]], int]:
    """The source frames of a test sequence of the demo, and the seed of its sensor."""
    index = next(i for i, scene in enumerate(SCENES) if scene.name == entry.name)
    random = np.random.default_rng([demo_seed, index])
    height, width = open_store(entry.store).layout.rgb_size
    count = entry.frames * FRAMES_PER_EXPOSURE + 1
    frames = render(SCENES[index], random, height, width, count)
    # As when the data were made: the seed is drawn before the first frame is.
    seed = int(random.integers(2**31))
    return list(frames), seed


def measure(
    restore: Callable[[SeenAgain], Any], entries: Sequence[SequenceEntry], bins: int
) -> dict[str, float]:
    """Mean PSNR in dB of each sensor."""
    found: dict[str, list[float]] = {name: [] for name in SENSORS}
    for entry in entries:
        frames, seed = film(entry, demo_seed=0)
        stored = StoredSequence(open_store(entry.store))
        for name, sensor in SENSORS.items():
            source = SeenAgain(stored, sensor.see(frames, seed), bins)
            if sensor == Sensor():
                everything = slice(0, entry.frames)
                again, before = (known.read(everything).counts for known in (source, stored))
                same = np.array_equal(np.asarray(again), np.asarray(before))
                assert same, "the scenes are those of the data set"
            restored = restore(source)
            found[name] += [psnr(frame, stored.read_sharp(n)) for n, frame in enumerate(restored)]
            print(f"{entry.name}, {name}: {statistics.fmean(found[name]):.2f} dB", flush=True)
    return {name: statistics.fmean(values) for name, values in found.items()}


def restorer(
    model: nn.Module, settings: Settings, voxels: Statistics | None
) -> Callable[[SeenAgain], Any]:
    """Restores a source with a trained model."""
    tiling = tiling_for(settings.TEST.TILE, settings.DATA.CLIP_LEN)
    device = torch.device("cpu")
    return lambda source: restore_frames(model, source, voxels, device, tiling)


def page(results: Mapping[str, Any]) -> str:
    """The page of these results."""
    found, trained = results["psnr"], results["psnr"][TRAINED]
    rows = [
        f"| {name} | {found[name]:.2f} | {found[name] - trained:+.2f} |"
        for name in SENSORS
        if name in found
    ]
    return HEAD.format(steps=results["steps"], blurry=results["blurry"]) + "\n".join(rows) + "\n"


HEAD = """# Another sensor than in training

<!-- Generated by benchmarks/robustness.py from benchmarks/results/robustness.json; do not edit. -->

The demo's model ({steps} steps, simulated spikes of threshold 2) on its test sequences, whose
spikes are simulated anew for other sensors. The blurry frames have {blurry:.2f} dB. Three things
make a model of one sensor serve for another: each sequence's own gain, voxels that are linear in
the spikes (both in [data-formats.md](data-formats.md)), and training clips of which some are seen
as by a sensor with twice the threshold (`DATA.THRESHOLD_AUGMENT`).

| spikes | PSNR, dB | difference |
|---|---|---|
"""


def main() -> None:
    """Measure, keep the results and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=cli.HelpFormatter)
    parser.add_argument(
        "--run", type=Path, default=Path("results/train/demo"), help="result folder of the demo"
    )
    parser.add_argument(
        "--dataset",
        type=Path,
        default=Path("results/data/demo/k32/dataset.json"),
        help="the demo's",
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page is outdated")
    arguments = parser.parse_args()
    if arguments.check:
        require_current(PAGE, page(read_json(RESULTS)), "robustness.py")
        return
    run, dataset = read_published(arguments.run), load_dataset(arguments.dataset)
    settings = deblurring_settings(run.settings)
    entries = dataset.split(settings.DATA.VAL_SPLIT)
    weights = arguments.run / "weights.safetensors"
    model = load_model(weights, settings, torch.device("cpu"))
    blurry = [
        psnr(frame, stored.read_sharp(n))
        for stored in (StoredSequence(open_store(entry.store)) for entry in entries)
        for n, frame in enumerate(stored.read(slice(0, len(stored.names))).blur)
    ]
    voxels = dataset.statistics_for(settings.DATA)
    results = {
        "steps": run.steps,
        "torch": torch.__version__,
        "blurry": statistics.fmean(blurry),
        "psnr": measure(restorer(model, settings, voxels), entries, settings.DATA.K),
    }
    write_json(RESULTS, results)
    atomic_write_text(PAGE, page(results))


if __name__ == "__main__":
    cli.run(main)
