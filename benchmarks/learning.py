"""Measure learning from spikes in two experiments, for the tables in docs/experiments.md.

- ``linear``: a linear regression of the sharp grey frame from the voxels of 3 x 3 sensor pixels and
  the blurry grey frame; it shows the information in the voxels, without a network. Trained on
  the training sequences of the demo, PSNR on its test sequences at the sensor's size.
- ``network``: the demo preset without flow, alignment and augmentation of thresholds, trained with
  several seeds, unchanged and changed; PSNR of the test sequences at full size. A run takes half an
  hour of a core.

Examples:
    snakemake --cores 2 results/data/demo/k32/dataset.json
    python benchmarks/learning.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from experiments import (
    ROOT,
    SEEDS,
    Inputs,
    Variant,
    markdown,
    measure_variants,
    run_experiment,
    variants_table,
)
from vrtspike.data.clips.dataset_manifest import DatasetManifest, load_dataset
from vrtspike.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.data.store.reading import Store
from vrtspike.data.voxels.bins import bin_edges
from vrtspike.io.images import luma, shrink
from vrtspike.system.program import run_main

Values = NDArray[np.float64]
Features = Callable[[NDArray[np.uint8]], Values]
"""Function of the spikes of an exposure: (T, h, w) -> (K, h, w)."""


# --- linear: information in voxels ----------------------------------------------------------------


def rates(edges: Callable[[int], NDArray[np.int64]]) -> Features:
    """Return a function of the spike rate of each bin; edges depend on the number of steps."""

    def bin_rates(spikes: NDArray[np.uint8]) -> Values:
        total = np.concatenate([np.zeros_like(spikes[:1], np.int64), np.cumsum(spikes, 0)])
        steps = edges(len(spikes))
        return np.diff(total[steps], axis=0) / np.diff(steps)[:, None, None]

    return bin_rates


def equal_bins(bins: int) -> Features:
    """Rates of bins with bin(t) = floor(t K / T), independent of the sharp frame."""
    return rates(lambda steps: -(-np.arange(bins + 1) * steps // bins))


def even_halves(steps: int) -> NDArray[np.int64]:
    """Edges of 32 bins about the sharp frame, each half divided evenly."""
    middle = int(spk_gopro_exposure(steps).sharp)
    before = np.arange(16) * middle // 16
    return np.concatenate([before, middle + np.arange(17) * (steps - middle) // 16])


def interval(spikes: NDArray[np.uint8]) -> Values:
    """One over the inter-spike interval around the sharp frame: (T, h, w) -> (1, h, w)."""
    middle = int(spk_gopro_exposure(len(spikes)).sharp)
    before = spikes[:middle][::-1]
    after = spikes[middle:]
    back = np.where(before.any(0), before.argmax(0) + 1, middle + 1)
    ahead = np.where(after.any(0), after.argmax(0), len(after))
    return (1.0 / (back + ahead))[None]


def short_windows(spikes: NDArray[np.uint8]) -> Values:
    """Rates of 4, 8 and 16 steps around the sharp frame: (T, h, w) -> (3, h, w)."""
    middle = int(spk_gopro_exposure(len(spikes)).sharp)
    return np.stack([spikes[middle - n : middle + n].mean(axis=0) for n in (2, 4, 8)])


NARROW = rates(lambda steps: bin_edges(spk_gopro_exposure(steps), 32))
LINEAR: dict[str, tuple[Features, ...]] = {
    "16 equal bins": (equal_bins(16),),
    "32 equal bins": (equal_bins(32),),
    "32 bins about the sharp frame, even": (rates(even_halves),),
    "**32 bins, narrow at the sharp frame**": (NARROW,),
    "the same and rates of 4, 8, 16 steps": (NARROW, short_windows),
    "the same and the inter-spike interval": (NARROW, interval),
}


def pixels(
    manifest: DatasetManifest, split: str, features: tuple[Features, ...]
) -> tuple[Values, Values]:
    """Return all pixels of a split: 3 x 3 neighbours of a feature, and sharp less blurry grey."""
    inputs = []
    targets = []
    for entry in manifest.split(split):
        store = Store(entry.store)
        assert store.gain is not None, "the demo has spikes"
        assert store.metadata.spike_size is not None
        height, width = store.metadata.spike_size
        for index, steps in enumerate(store.metadata.spike_frames):
            frame = (slice(index, index + 1), slice(None), slice(None))
            bits = store.read("bits", *frame)[0, :steps]
            spikes = np.unpackbits(bits, axis=-1, bitorder="little")[..., :width]
            blur = shrink(luma(store.read("blur", *frame)[0]), height, width) / 255.0
            sharp = shrink(luma(store.read("sharp", *frame)[0]), height, width) / 255.0
            channels = [store.gain * feature(spikes) for feature in features]
            picture = np.concatenate([*channels, blur[None]])
            padded = functional.pad(torch.from_numpy(picture)[None], (1, 1, 1, 1), mode="replicate")
            near = functional.unfold(padded, 3)[0].numpy().T
            inputs.append(np.concatenate([near, np.ones((len(near), 1))], axis=1))
            targets.append((sharp - blur).ravel())
    return np.concatenate(inputs), np.concatenate(targets)


def linear_part(manifest: DatasetManifest) -> dict[str, float]:
    """PSNR in dB of the linear regression from each kind of voxels."""
    results = {}
    for name, features in LINEAR.items():
        inputs, targets = pixels(manifest, "train", features)
        ridge = 1e-3 * np.eye(inputs.shape[1])
        weights = np.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ targets)
        inputs, targets = pixels(manifest, "test", features)
        results["blurry frame"] = -10 * math.log10(np.mean(targets**2))
        results[name] = -10 * math.log10(np.mean((targets - inputs @ weights) ** 2))
        print(f"linear, {name}: {results[name]:.2f} dB", flush=True)
    return results


# --- network: the demo preset, changed ------------------------------------------------------------

# Flow and alignment take half of the time and do not depend on spikes. Clips as of other sensors
# are harder to learn from.
GIVEN: dict[str, object] = {
    "MODEL.VRT.PA_FRAMES": 0,
    "TRAIN.FREEZE_FLOW_STEPS": "null",
    "TRAIN.MAX_STEPS": 300,
    "DATA.THRESHOLD_AUGMENT": 0,
}
NETWORKS = {
    "**the network**": Variant(GIVEN),
    "the network with shuffled spikes": Variant(
        {**GIVEN, "MODEL.SPIKE_ORDER": "shuffled"}, SEEDS[:1]
    ),
    "without spikes": Variant({**GIVEN, "MODEL.USE_SPIKE": "false"}, SEEDS[:1]),
}


def measured(inputs: Inputs, results: dict[str, Any]) -> Iterator[None]:
    """Measure missing results of both experiments."""
    if "linear" not in results:
        results["linear"] = linear_part(load_dataset(inputs.dataset))
        yield
    yield from measure_variants("demo", NETWORKS, inputs, results.setdefault("network", {}))


def section(results: Mapping[str, Any]) -> str:
    """Return the part of the page that this program writes."""
    linear = [(name, f"{results['linear'][name]:.2f}") for name in ("blurry frame", *LINEAR)]
    blurry = results["network"]["**the network**"][str(SEEDS[0])]["blurry"]
    return "\n\n".join(
        (
            markdown(("voxels", "PSNR, dB"), linear),
            variants_table(NETWORKS, results["network"], {}),
            f"{GIVEN['TRAIN.MAX_STEPS']} steps; seeds {', '.join(map(str, SEEDS))}; the blurry "
            f"frames have {blurry:.2f} dB. `python benchmarks/learning.py`. In italics: networks "
            "of commit 6c05e456.",
        )
    )


if __name__ == "__main__":
    page = ROOT / "docs" / "experiments.md"
    run_main(lambda: run_experiment("learning", page, section, measured, __doc__))
