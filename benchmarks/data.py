"""Measure how fast data are read, beside a plain reference in the same run.

A data set of GoPro's size per frame (720 x 1280 RGB, 88 x 360 x 640 spikes) is made in a temporary
folder and read as training reads it. The references are the obvious implementations: PNG
files decoded for every sample, voxels summed bin by bin in Python. Times are median CPU
milliseconds of one process, which a busy machine changes less; rates are by the clock. Variants
alternate, so that a disturbance affects them all.

    python benchmarks/data.py [--output benchmarks/results]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from experiments import write_measurements
from vrtspike.config.run_schema import RunSettings
from vrtspike.data.checks.ingest import ingest_sequence
from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.clips.merging import merge_dataset
from vrtspike.data.data_source import RawFolder
from vrtspike.data.manifests import ACCEPTED, Acceptance
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.data.raw.recordings import find_sensor
from vrtspike.data.simulation.scenes import FRAMES_PER_EXPOSURE
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.data.store.reading import MEMORY_PER_BYTE, Store, cache_stats
from vrtspike.data.store.writing import build_store
from vrtspike.data.voxels.bins import bin_edges
from vrtspike.deblurring_settings.data import DataSettings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import read_json, write_json
from vrtspike.io.images import read_rgb
from vrtspike.io.manifests import sealed
from vrtspike.monitoring.cache_stats import CacheStats
from vrtspike.monitoring.memory import MEGABYTE, measure_memory
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main
from vrtspike.training.batches import ShuffledBatches
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.workers import WorkerCounts

HEIGHT = 720
WIDTH = 1280
BINS = 32
CLIP = 5
CROP = 256
SEQUENCES = 2
FRAMES = 16
COPIES = 36
"""Sequences of the data that do not fit into the cache: 576 frames of 12.9 MB."""
KINDS = ("counts", "bits")
ENOUGH = 2 * 10**9
"""Bytes of cache that hold all of the small data set."""

Measurements: TypeAlias = Iterable[tuple[str, float, str]]
Works: TypeAlias = dict[str, Callable[[], Any]]

# Prints its own peak memory: the parent's would count for its children.
BUILD = """
import sys
from vrtspike.data.store.writing import build_store
from vrtspike.deblurring_settings.stores import StoreOptions
root, manifest, bins, output = sys.argv[1:]
build_store(root, manifest, StoreOptions(bins=int(bins)), output)
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""


def make_data(folder: Path) -> Path:
    """Write raw files of sequences that move, build their stores, and return their manifest."""
    random = np.random.default_rng(0)
    raw = folder / "raw"
    manifests: list[Path] = []
    for name in (f"s{index}" for index in range(SEQUENCES)):
        noise = random.random((HEIGHT, WIDTH, 3), dtype=np.float32)
        scene = np.asarray(cv2.GaussianBlur(noise, (0, 0), 3), dtype=np.float32)
        scene += 0.02 * random.standard_normal(scene.shape, dtype=np.float32)
        picture = np.clip(255 * (0.5 + 5 * (scene - scene.mean())), 0, 255).astype(np.uint8)
        frames = (np.roll(picture, n, axis=1) for n in range(FRAMES * FRAMES_PER_EXPOSURE + 1))
        write_sequence(raw / "train" / name, frames, frames_per_exposure=FRAMES_PER_EXPOSURE)
        contents = ingest_sequence(raw, find_sequence(RawFolder(raw), f"train/{name}"))
        ingested = folder / "ingest" / f"{name}.json"
        write_json(ingested, {**contents, "source_version": "", "recipe": ""})
        manifests.append(folder / "k32" / "train" / f"{name}.json")
        build_store(raw, ingested, StoreOptions(bins=BINS), manifests[-1])
    return _merged(manifests, folder / "k32")


def repeat_data(folder: Path, first: Path) -> Path:
    """Make a data set of many stores with the contents of one, by hard links."""
    contents = read_json(first)
    manifests: list[Path] = []
    for name in (f"s{index}" for index in range(COPIES)):
        manifests.append(folder / "train" / f"{name}.json")
        store = manifests[-1].with_suffix(".zarr")
        shutil.copytree(first.with_suffix(".zarr"), store, copy_function=os.link)
        write_json(manifests[-1], sealed(contents | {"sequence": name}))
    return _merged(manifests, folder)


def _merged(manifests: list[Path], folder: Path) -> Path:
    """Write the manifest of a data set of these sequences."""
    path = folder / "dataset.json"
    names = [f"train/{manifest.stem}" for manifest in manifests]
    accepted: Acceptance = {
        "schema": ACCEPTED.schema,
        "sequences": names,
        "excluded": {},
        "overlaps": {},
    }
    write_json(path, merge_dataset(accepted, folder, dataset_name="benchmark"))
    return path


def plain_voxels(path: Path, dtype: type | None = None) -> NDArray[Any]:
    """The reference: all bits to bytes, then a sum over each bin."""
    raw = np.fromfile(path, dtype=np.uint8).reshape(-1, HEIGHT * WIDTH // 32)
    bits = np.unpackbits(raw, axis=1, bitorder="little")
    spikes = bits.reshape(-1, HEIGHT // 2, WIDTH // 2)[:, ::-1]
    edges = bin_edges(spk_gopro_exposure(len(spikes)), BINS)
    return np.stack([spikes[a:b].sum(axis=0, dtype=dtype) for a, b in pairwise(edges)])


def plain_sample(root: Path, random: np.random.Generator) -> None:
    """The reference: decode ten PNG files and five spike files, cut, convert to float32."""
    start = int(random.integers(FRAMES - CLIP + 1))
    y, x = (2 * int(random.integers((side - CROP) // 2 + 1)) for side in (HEIGHT, WIDTH))
    for spikes in sorted((root / "spike").glob("*.dat"))[start : start + CLIP]:
        for part in ("blur", "sharp"):
            picture = read_rgb(root / part / f"{spikes.stem}.png")
            picture[y : y + CROP, x : x + CROP].astype(np.float32)
        voxels = plain_voxels(spikes, np.uint8).astype(np.float32)
        voxels[:, y // 2 : (y + CROP) // 2, x // 2 : (x + CROP) // 2].copy()


def cpu_times(works: Works, repeat: int) -> dict[str, float]:
    """Return the median CPU milliseconds of single calls; the functions are called in turn."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeat):
        for name, work in works.items():
            start = time.process_time()
            work()
            times[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def decoding(path: Path) -> Measurements:
    """Spike file to 32 bins."""

    def ours() -> NDArray[np.uint8]:
        spikes = find_sensor(path, None, None, frame=(HEIGHT, WIDTH)).read(path)
        return spikes.counts(bin_edges(spk_gopro_exposure(len(spikes)), BINS))

    assert np.array_equal(ours(), plain_voxels(path))
    works = {
        "unpackbits and sum (reference)": lambda: plain_voxels(path),
        "unpackbits and sum in 8 bits (reference)": lambda: plain_voxels(path, np.uint8),
        "this project": ours,
    }
    for name, value in cpu_times(works, 15).items():
        yield f"voxels: {name}", value, "ms"


def megabytes_per_frame(manifest: Path) -> Measurements:
    """Size on disk of each array, per frame."""
    for name in Store(manifest.parent / "train" / "s0.zarr").metadata.shapes:
        files = [p for p in manifest.parent.glob(f"*/*.zarr/{name}/**/*") if p.is_file()]
        size = sum(path.stat().st_size for path in files)
        yield f"store: {name}", size / (SEQUENCES * FRAMES * 1e6), "MB per frame"


def ingestion(folder: Path) -> Measurements:
    """Checking a sequence beside reading its files, and a process that builds its store."""
    raw = folder / "raw"

    def read() -> None:
        for path in raw.glob("train/s0/*/*.png"):
            read_rgb(path)
        for path in raw.glob("train/s0/spike/*.dat"):
            find_sensor(path, None, None, frame=(HEIGHT, WIDTH)).read(path)

    def check() -> None:
        ingest_sequence(raw, find_sequence(RawFolder(raw), "train/s0"))

    for name, value in cpu_times({"reading its files": read, "one frame": check}, 3).items():
        yield f"ingest: {name}", value / FRAMES, "ms"
    options = (raw, folder / "ingest" / "s0.json", BINS, folder / "again" / "s.json")
    start = time.perf_counter()
    output = subprocess.check_output([sys.executable, "-c", BUILD, *map(str, options)], text=True)
    yield "voxelize: one frame", 1e3 * (time.perf_counter() - start) / FRAMES, "ms by the clock"
    yield "voxelize: peak memory", int(output.split()[-2]) / 1e3, "MB"


def clips_of(manifest: Path, kind: str = "counts", cache_bytes: int = 0) -> ClipDataset:
    """Return training clips of the baseline preset, from stored ``counts`` or ``bits``."""
    settings = DataSettings(
        CROP_SIZE=CROP, CLIP_LEN=CLIP, NUM_VOXEL_BINS=BINS, USE_PRECOMPUTED_VOXELS=kind == "counts"
    )
    dataset = load_dataset(manifest)
    return ClipDataset(dataset, "train", settings, seed=2, cache_bytes=cache_bytes)


class Samples:
    """Reads random samples of some clips, the same ones in the same order for every object."""

    def __init__(self, clips: ClipDataset) -> None:
        self._clips = clips
        self._random = np.random.default_rng(1)
        self._epoch = 0

    def __call__(self) -> Any:  # noqa: ANN401 - a sample
        """Read the next one."""
        self._epoch += 1
        self._clips.set_epoch(self._epoch)
        return self._clips[int(self._random.integers(len(self._clips)))]


def sample_times(manifest: Path, raw: Path) -> Measurements:
    """CPU time of a random training sample, by representation; files are in the page cache."""
    random = np.random.default_rng(1)
    plain: Works = {
        "PNG and spike files (reference)": lambda: plain_sample(raw / "train" / "s0", random)
    }
    ours: Works = {f"tensorstore, {kind}": Samples(clips_of(manifest, kind)) for kind in KINDS}
    cached = Samples(clips_of(manifest, cache_bytes=ENOUGH))
    cpu_times({"": cached}, 150)  # reads every chunk
    ours["tensorstore, counts, all cached"] = cached
    for name, value in (cpu_times(plain, 7) | cpu_times(ours, 60)).items():
        yield f"sample: {name}", value, "ms"


def batches_of(clips: ClipDataset, workers: int = 0, **loader: int) -> ShuffledBatches:
    """Return batches of one clip for a process without GPU."""
    settings = RunSettings.model_validate({"DATALOADER": loader})
    processes = WorkerCounts(workers, 1, workers, 0)
    ranks = DistributedContext(0, 0, 1, 1, torch.device("cpu"))
    return ShuffledBatches(clips, settings, processes, ranks)


def loader_rates(manifest: Path, samples: int = 800) -> Measurements:
    """Samples a second through two workers, augmentation included, start-up excluded."""
    variants = [(kind, kind, 0) for kind in KINDS]
    variants.append(("counts, all cached", "counts", ENOUGH))
    for title, kind, cache_bytes in variants:
        batches = batches_of(clips_of(manifest, kind, cache_bytes), workers=2)
        skip = samples // 4
        start = 0.0
        for number, _ in enumerate(batches.stream(0, 1, samples), start=1):
            if number == skip:
                start = time.perf_counter()
        rate = (samples - skip) / (time.perf_counter() - start)
        yield f"DataLoader: 2 workers, {title}", rate, "samples/s"


def caching(folder: Path, first: Path) -> Measurements:
    """Measure a cache that holds a fifth of the data."""
    manifest = repeat_data(folder, first)
    metadata = Store(first.with_suffix(".zarr")).metadata
    size = COPIES * sum(np.prod(metadata.shapes[name]) for name in ("blur", "sharp", "voxels"))
    cache_bytes = int(size / 5 * MEMORY_PER_BYTE)
    taken = []
    for budget in (0, cache_bytes):
        clips = clips_of(manifest, cache_bytes=budget // 2)
        batches = batches_of(clips, workers=2, TRAIN_PREFETCH_FACTOR=2)
        last = 3 * batches.per_epoch
        for number, _ in enumerate(batches.stream(0, 1, last), start=1):
            if number == last - 10:
                taken.append(measure_memory(torch.device("cpu"))["children_mb"] * MEGABYTE)
    used = 100 * (taken[1] - taken[0]) / cache_bytes
    yield "cache of 20 %: memory taken of what was given", used, "%"
    for block in (1, 32):
        batches = batches_of(clips_of(manifest, cache_bytes=cache_bytes), SHUFFLE_BLOCK=block)
        epochs = []
        per_epoch = batches.per_epoch
        for epoch in range(2):
            begin = cache_stats()
            for _ in batches.stream(epoch * per_epoch, 1, (epoch + 1) * per_epoch):
                pass
            epochs.append(CacheStats(*np.subtract(cache_stats(), begin).tolist()))
        name = f"cache of 20 %: hits in a second epoch, DATALOADER.SHUFFLE_BLOCK {block}"
        yield name, 100 * epochs[1].record()["hit_rate"], "%"


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--output", type=Path, help="folder for data.csv")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = make_data(folder)
        rows = [
            *decoding(min((folder / "raw/train/s0/spike").glob("*.dat"))),
            *megabytes_per_frame(manifest),
            *ingestion(folder),
            *sample_times(manifest, folder / "raw"),
            *loader_rates(manifest),
            *caching(folder / "many", manifest.parent / "train" / "s0.json"),
        ]
    write_measurements(rows, arguments.output, "data")


if __name__ == "__main__":
    run_main(main)
