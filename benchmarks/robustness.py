"""Measure a trained model with other sensors, after training with different augmentations.

The preset ``light_demo``, without spikes of neighbouring frames, is trained with several
DATA.THRESHOLD_AUGMENT and DATA.FAULT_AUGMENT, those of the preset ``light`` last. Its test
sequences are filmed again by sensors of other thresholds and with faults; the table in
docs/experiments.md says what each costs: PSNR less that of the sensor of the training data. A
training takes minutes of a core.

Examples:
    snakemake --cores 2 results/data/demo/k32/dataset.json
    python benchmarks/robustness.py
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from experiments import CPU, ROOT, Inputs, markdown, run_experiment, train_preset
from vrtspike.data.clips.dataset_manifest import DatasetManifest, load_dataset
from vrtspike.data.simulation.demo import SCENES, Scene, render
from vrtspike.data.simulation.scenes import FRAMES_PER_EXPOSURE
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.data.store.reading import Store
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.schema import load_deblurring_preset, require_deblurring_settings
from vrtspike.metrics.psnr import psnr
from vrtspike.restoration.inference.tiling import tiling_for
from vrtspike.restoration.inputs.clip_frames import ArrayFrames
from vrtspike.restoration.inputs.clip_source import StoreClipSource
from vrtspike.restoration.inputs.clip_spikes import array_spikes
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.restoration.tiled_inference import load_model, restore_frames, torch_tile_model
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.system.errors import DataError
from vrtspike.system.program import run_main

STEPS_PER_FRAME = 8

Spikes = NDArray[np.uint8]

GIVEN: dict[str, object] = {"MODEL.NAF.NEIGHBOUR_BINS": 0}
KEYS = ("DATA.THRESHOLD_AUGMENT", "DATA.FAULT_AUGMENT")
OTHERS = ("0, 0", "0.3, 0", "0, 0.8")
"""Values of these keys to compare with the shipped ones."""


def shipped() -> str:
    """Return the values of these keys in the preset ``light``."""
    data = load_deblurring_preset(ROOT / "config" / "presets" / "light.yaml").DATA
    return f"{data.THRESHOLD_AUGMENT:g}, {data.FAULT_AUGMENT:g}"


def augmentations() -> list[str]:
    """Return the columns of the table; the last one holds the values of ``light``."""
    return [*(values for values in OTHERS if values != shipped()), shipped()]


CLEAN = "threshold 2, as in training"
SENSORS: dict[str, dict[str, float]] = {
    CLEAN: {},
    "threshold 1": {"theta": 1},
    "threshold 4": {"theta": 4},
    "threshold between pixels +- 5 %": {"theta_spread": 0.05},
    "1 % dark counts": {"dark_counts": 0.01},
    "0.1 % hot, 0.1 % dead pixels": {"hot_pixels": 0.001, "dead_pixels": 0.001},
    "10 % of the spikes a step late": {"jitter": 0.1},
}
FLIPPED = "1 % of the bits flipped"


def filmed(scene: Scene, number: int, frames: int, size: tuple[int, int]) -> list[Spikes]:
    """Render the high-frame-rate video of a sequence of the demo again."""
    random = np.random.default_rng([0, number])
    random.integers(2**31)  # the seed of the sensor, which make_demo_data draws first
    return list(render(scene, random, *size, frames * FRAMES_PER_EXPOSURE + 1))


def exposures(video: list[Spikes], sensor: Mapping[str, float]) -> list[Spikes]:
    """Simulate the spikes of each blurry frame: (T, h, w)."""
    spikes = simulate_spikes(video, steps_per_frame=STEPS_PER_FRAME, seed=1, **sensor)
    steps = STEPS_PER_FRAME * FRAMES_PER_EXPOSURE
    return [spikes[n : n + steps] for n in range(0, len(spikes) - steps, steps)]


def flipped(spikes: list[Spikes]) -> list[Spikes]:
    """Flip one bit in a hundred."""
    random = np.random.default_rng(2)
    return [bits ^ (random.random(bits.shape) < 0.01).astype(np.uint8) for bits in spikes]


def mean_psnr(
    model: nn.Module, settings: DeblurringSettings, manifest: DatasetManifest
) -> dict[str, float]:
    """Compute the mean PSNR in dB of the test sequences, by sensor."""
    values_by_sensor: dict[str, list[float]] = {}
    scenes = {scene.name: (number, scene) for number, scene in enumerate(SCENES)}
    for entry in manifest.split(settings.DATA.TEST_SPLIT):
        store = Store(entry.store)
        stored = StoreClipSource(store)
        count = len(stored.names)
        number, scene = scenes[entry.name]
        video = filmed(scene, number, count, stored.size)
        if not np.array_equal(video[FRAMES_PER_EXPOSURE // 2], store.frame("sharp", 0)):
            raise DataError(f"{entry.store}: other frames than those of {scene.name} of the demo")
        blurry = ArrayFrames(stored.blurry_frames(slice(0, count)))
        for name in (*SENSORS, FLIPPED):
            spikes = exposures(video, SENSORS.get(name, SENSORS[CLEAN]))
            clip_spikes = array_spikes(blurry, flipped(spikes) if name == FLIPPED else spikes)
            restored = restore_frames(
                torch_tile_model(model, manifest.statistics_for(settings.DATA), CPU),
                InputClip(blurry, clip_spikes, manifest.stores),
                tiling_for(settings),
            )
            values_by_sensor.setdefault(name, []).extend(
                psnr(frame, store.frame("sharp", n)) for n, frame in enumerate(restored)
            )
    return {name: statistics.fmean(values) for name, values in values_by_sensor.items()}


def measured(inputs: Inputs, results: dict[str, Any]) -> Iterator[None]:
    """Train with augmentations without results, and measure."""
    for name in augmentations():
        if name in results:
            continue
        augmentation = zip(KEYS, name.split(","), strict=True)
        with TemporaryDirectory() as folder:
            run = train_preset(
                "light_demo", {**GIVEN, **dict(augmentation)}, inputs.dataset, Path(folder)
            )
            settings = require_deblurring_settings(run.settings, run.name)
            model = load_model(Path(folder) / "result" / WEIGHTS, settings, CPU)
        results[name] = mean_psnr(model, settings, load_dataset(inputs.dataset))
        print(name, results[name], flush=True)
        yield


def section(results: Mapping[str, Mapping[str, float]]) -> str:
    """Return the part of the page that this program writes."""
    names = augmentations()
    rows = [[f"{CLEAN}: PSNR, dB", *(f"{results[name][CLEAN]:.2f}" for name in names)]]
    for sensor in (*SENSORS, FLIPPED):
        if sensor != CLEAN:
            losses = [results[name][sensor] - results[name][CLEAN] for name in names]
            rows.append([sensor, *(f"{loss:+.2f}" for loss in losses)])
    titles = [f"**{title(name)}**" if name == shipped() else title(name) for name in names]
    return markdown(["sensor", *titles], rows)


def title(values: str) -> str:
    """Return the head of a column: the shares of training clips with each augmentation.

    Args:
        values: values of :data:`KEYS`, such as ``0.3, 0.7``.
    """
    thresholds, faults = map(float, values.split(","))
    parts = []
    if thresholds:
        parts.append(f"thresholds {100 * thresholds:g} %")
    if faults:
        parts.append(f"faults {100 * faults:g} %")
    return ", ".join(parts) or "no augmentation"


if __name__ == "__main__":
    page = ROOT / "docs" / "experiments.md"
    run_main(lambda: run_experiment("robustness", page, section, measured, __doc__))
