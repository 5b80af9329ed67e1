"""Choose the classical reconstruction from spikes for the baseline: windows, and intervals.

Each test frame of the demo is reconstructed from the spikes of its exposure as an evaluation does
it (``vrtspike.restoration.spikes_alone``), and compared with the sharp frame in grey.
Results in ``benchmarks/results/spikes_alone.json`` and in ``docs/metrics.md``.

Examples:
    snakemake --cores 2 results/data/demo/k32/dataset.json
    python benchmarks/spikes_alone.py
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import CPU, ROOT, Inputs, markdown, run_experiment
from vrtspike.data.clips.dataset_manifest import SequenceEntry, load_dataset
from vrtspike.data.exposure import Exposure
from vrtspike.data.spike_reconstruction import tfp
from vrtspike.data.store.reading import Store
from vrtspike.evaluation.measure import FrameImages, MetricFunctions, measure_images
from vrtspike.metrics.psnr import PSNR_Y
from vrtspike.metrics.ssim import SSIM_Y
from vrtspike.metrics.tof import TOF
from vrtspike.restoration.spikes_alone import (
    RECONSTRUCTIONS,
    Reconstruction,
    gray_pair,
    spikes_alone,
)
from vrtspike.system.cpus import available_cpus
from vrtspike.system.program import run_main

WINDOWS = (16, 24, 32, 40, 88)
MEASURED = (PSNR_Y, SSIM_Y, TOF)
INTERVALS = "intervals (TFI)"


def reconstructions() -> dict[str, Reconstruction]:
    """Return the compared reconstructions, by their names in the table."""

    def with_window(length: int) -> Reconstruction:
        def rate(spikes: NDArray[np.uint8], exposure: Exposure) -> NDArray[np.float32]:
            return tfp(spikes, int(exposure.sharp), length)

        return rate

    windows = {f"window of {length} steps (TFP)": with_window(length) for length in WINDOWS}
    return windows | {INTERVALS: RECONSTRUCTIONS["tfi"]}


def measure(
    entry: SequenceEntry, rate: Reconstruction, metric_functions: MetricFunctions
) -> dict[str, float]:
    """Mean of each metric over the frames of a sequence."""
    values: dict[str, list[float]] = {metric.name: [] for metric in metric_functions}
    previous = None
    with ThreadPoolExecutor(available_cpus()) as threads:
        for images in frames(entry, rate):
            row = measure_images(metric_functions, images, previous, threads)
            previous = images
            for metric in metric_functions:
                value = row[f"{metric.name}_spikes"]
                if not math.isnan(value):
                    values[metric.name].append(value)
    return {name: statistics.fmean(of_frames) for name, of_frames in values.items()}


def frames(entry: SequenceEntry, rate: Reconstruction) -> Iterator[FrameImages]:
    """Yield the reconstruction of each frame, and the sharp frame in grey."""
    store = Store(entry.store)
    for index in range(entry.frames):
        picture = spikes_alone(store, rate, index)
        reconstruction, truth = gray_pair(picture, store.frame("sharp", index))
        yield {"spikes": reconstruction, "gray": truth}


def measured(inputs: Inputs, results: dict[str, Any]) -> Iterator[None]:
    """Measure the test sequences, unless results exist."""
    if results:
        return
    entries = load_dataset(inputs.dataset).split("test")
    metric_functions: MetricFunctions = {
        metric: metric.load(Path("none"), CPU) for metric in MEASURED
    }
    results |= {"sequences": len(entries), "metrics": [m.name for m in MEASURED], "rows": []}
    for name, rate in reconstructions().items():
        rows = [measure(entry, rate, metric_functions) for entry in entries]
        means = {m.name: statistics.fmean(row[m.name] for row in rows) for m in MEASURED}
        results["rows"].append({"reconstruction": name, **means})
    yield


def section(results: Mapping[str, Any]) -> str:
    """The results as a table; the best of each column in bold."""
    rows = results["rows"]
    best = {m.name: m.best(row[m.name] for row in rows) for m in MEASURED}
    body = []
    for row in rows:
        cells = [
            f"**{m.text(row[m.name])}**" if row[m.name] == best[m.name] else m.text(row[m.name])
            for m in MEASURED
        ]
        body.append([row["reconstruction"], *cells])
    return markdown(["reconstruction", *(metric.title for metric in MEASURED)], body)


if __name__ == "__main__":
    page = ROOT / "docs" / "metrics.md"
    run_main(lambda: run_experiment("spikes_alone", page, section, measured, __doc__))
