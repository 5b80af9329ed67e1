"""Which classical reconstruction from spikes is the baseline: windows, and intervals.

Each test frame of the demo is reconstructed from the spikes of its exposure as an evaluation does
it (``vrtspike.deblurring.evaluation.spikes_alone``), and compared with the sharp frame in grey.
Results in ``benchmarks/results/spikes_alone.json`` and in ``docs/metrics.md``.

Examples:
    snakemake --cores 2 results/data/demo/k32/dataset.json
    python benchmarks/spikes_alone.py
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from measured_figures import experiment_options, markdown, require_current, with_part
from vrtspike.deblurring.data.clips.dataset import SequenceEntry, load_dataset
from vrtspike.deblurring.data.exposure import Exposure
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.evaluation.measure import ClipMeter, FrameImages, Scores
from vrtspike.deblurring.evaluation.sources import sharp_frame, stored_sequence
from vrtspike.deblurring.evaluation.spikes_alone import (
    RECONSTRUCTIONS,
    Reconstruction,
    gray_frame,
    spikes_alone,
    to_frame,
)
from vrtspike.deblurring.metrics.psnr import PSNR_Y
from vrtspike.deblurring.metrics.registry import METRICS
from vrtspike.deblurring.metrics.ssim import SSIM_Y
from vrtspike.deblurring.metrics.tof import TOF
from vrtspike.deblurring.spike_images import tfp
from vrtspike.io.files import atomic_write_text, read_json, write_json
from vrtspike.system import cli

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "spikes_alone.json"
PAGE = ROOT / "docs" / "metrics.md"

WINDOWS = (16, 24, 32, 40, 88)
MEASURED = (PSNR_Y, SSIM_Y, TOF)
INTERVALS = "intervals (TFI)"


def reconstructions() -> dict[str, Reconstruction]:
    """What is compared, by its name in the table."""

    def with_window(length: int) -> Reconstruction:
        def rate(spikes: NDArray[np.uint8], seen: Exposure) -> NDArray[np.float32]:
            return tfp(spikes, int(seen.sharp), length)

        return rate

    windows = {f"window of {length} steps (TFP)": with_window(length) for length in WINDOWS}
    return windows | {INTERVALS: RECONSTRUCTIONS["tfi"]}


def measure(entry: SequenceEntry, rate: Reconstruction, scores: Scores) -> dict[str, float]:
    """Mean of each metric over the frames of a sequence."""
    figures: dict[str, list[float]] = {metric.name: [] for metric in scores}
    meter = ClipMeter(scores)
    for images in frames(entry, rate):
        row = meter.measure(images)
        for metric in scores:
            if not math.isnan(row[metric.spikes_column]):
                figures[metric.name].append(row[metric.spikes_column])
    return {name: statistics.fmean(values) for name, values in figures.items()}


def frames(entry: SequenceEntry, rate: Reconstruction) -> Iterator[FrameImages]:
    """What the spikes show of each frame, and the sharp frame in grey."""
    store = Store(entry.store)
    size = stored_sequence(store).size
    for number in range(entry.frames):
        seen = to_frame(spikes_alone(store, rate, number), size)
        yield {"spikes": seen, "gray": gray_frame(sharp_frame(store, number))}


def table(results: Mapping[str, Any]) -> str:
    """The results as a table; the best of each column in bold."""
    rows = {row["reconstruction"]: row for row in results["figures"]}
    metrics = [METRICS[name] for name in results["metrics"]]
    best = {m.name: m.best(row[m.name] for row in rows.values()) for m in metrics}
    body = []
    for name, row in rows.items():
        cells = [
            f"**{m.text(row[m.name])}**" if row[m.name] == best[m.name] else m.text(row[m.name])
            for m in metrics
        ]
        body.append([name, *cells])
    return markdown(["reconstruction", *(metric.title for metric in metrics)], body)


def page(results: Mapping[str, Any]) -> str:
    """The page with today's table."""
    return with_part(PAGE, "spikes_alone.py", table(results))


def main() -> None:
    """Measure, keep the results and write the page."""
    arguments = experiment_options(__doc__).parse_args()
    if arguments.check:
        require_current(PAGE, page(read_json(RESULTS)), "spikes_alone.py")
        return
    torch.set_num_threads(arguments.threads)
    entries = load_dataset(arguments.dataset).split("test")
    no_weights, cpu = Path("none"), torch.device("cpu")
    scores: Scores = {metric: metric.load(no_weights, cpu) for metric in MEASURED}
    figures: list[dict[str, Any]] = []
    for name, rate in reconstructions().items():
        rows = [measure(entry, rate, scores) for entry in entries]
        means = {m.name: statistics.fmean(row[m.name] for row in rows) for m in MEASURED}
        figures.append({"reconstruction": name, **means})
    results = {
        "sequences": len(entries),
        "metrics": [metric.name for metric in MEASURED],
        "figures": figures,
    }
    write_json(RESULTS, results)
    atomic_write_text(PAGE, page(results))


if __name__ == "__main__":
    cli.run(main)
