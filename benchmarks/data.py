"""How fast data are read, with a plain reference in the same run.

A data set of GoPro's size per frame (720 x 1280 RGB, 88 x 360 x 640 spikes) is made in a temporary
folder and read as training reads it. The references are what one would write first: PNG files
decoded for every sample, voxels summed bin by bin in Python, and batches passed on by torch's own
data loader. Times are CPU milliseconds of one process (medians), so that a busy machine changes
them less; rates are by the clock. Variants take turns, so that a disturbance meets them all.

    python benchmarks/data.py [--spikes FILE.dat --frame FILE.png] [--output benchmarks/results]
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from data_made import (
    BINS,
    CLIP,
    CROP,
    FRAMES,
    HEIGHT,
    SEQUENCES,
    WIDTH,
    drop_caches,
    make_data,
    plain_sample,
    plain_voxels,
    repeat_data,
)
from measured_figures import write_figures
from vrtspike.config.run_schema import RunSettings
from vrtspike.deblurring.data.clips.clips import ClipDataset
from vrtspike.deblurring.data.clips.dataset import load_dataset
from vrtspike.deblurring.data.gate.ingest import ingest_sequence
from vrtspike.deblurring.data.raw.layouts.registry import find_sequence
from vrtspike.deblurring.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.deblurring.data.raw.spikes import read_packed
from vrtspike.deblurring.data.store.reading import MEMORY_PER_BYTE, ChunkReader, Store, cache_use
from vrtspike.deblurring.data.store.voxels import voxelize_packed
from vrtspike.deblurring.settings.schema import DataSettings
from vrtspike.io.images import read_rgb
from vrtspike.monitoring.memory import MEGABYTE, measure_memory
from vrtspike.system.cli import run
from vrtspike.training.batches import ShuffledBatches
from vrtspike.training.distributed import Ranks
from vrtspike.training.workers import Workers

Figures: TypeAlias = Iterable[tuple[str, float, str]]
Works: TypeAlias = dict[str, Callable[[], Any]]
KINDS = ("counts", "bits")
CHECKS = ("align", "view_spikes", "view_picture", "order_fault")
"""Functions of the gate whose share of the time is told."""
ENOUGH = 2 * 10**9
"""Bytes of cache that hold all of the small data set."""

# Prints its own peak memory: the parent's would count for its children.
BUILD = """
import sys
from vrtspike.deblurring.data.store.build import build_store
root, manifest, bins, output = sys.argv[1:]
build_store(root, manifest, int(bins), output)
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""


def cpu_times(works: Works, repeat: int) -> dict[str, list[float]]:
    """CPU milliseconds of this process for single calls, the works taking turns; sorted."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeat):
        for name, work in works.items():
            start = time.process_time()
            work()
            times[name].append(1e3 * (time.process_time() - start))
    return {name: sorted(found) for name, found in times.items()}


def decoding(path: Path) -> Figures:
    """Spike file to 32 bins."""

    def ours() -> NDArray[np.uint8]:
        bits = read_packed(path, HEIGHT // 2, WIDTH // 2).rows
        return voxelize_packed(bits, BINS, spk_gopro_exposure(len(bits)).sharp)

    assert np.array_equal(ours(), plain_voxels(path))
    works = {
        "unpackbits and sum (reference)": lambda: plain_voxels(path),
        "unpackbits and sum in 8 bits (reference)": lambda: plain_voxels(path, np.uint8),
        "this project": ours,
    }
    found = {name: statistics.median(times) for name, times in cpu_times(works, 15).items()}
    yield from ((f"voxels: {name}", value, "ms") for name, value in found.items())
    plain, small, mine = found.values()
    yield "voxels: reference / this project", plain / mine, "x"
    yield "voxels: 8-bit reference / this project", small / mine, "x"


def megabytes_per_frame(manifest: Path) -> Figures:
    """Size on disk of each array and of all, per frame."""
    total = 0.0
    store = next(manifest.parent.glob("*/*.zarr"))
    for name in Store(store).layout.shapes:
        files = [p for p in manifest.parent.glob(f"*/*.zarr/{name}/**/*") if p.is_file()]
        size = sum(path.stat().st_size for path in files) / (SEQUENCES * FRAMES * 1e6)
        total += size
        yield f"store: {name}", size, "MB per frame"
    yield "store: all arrays", total, "MB per frame"


def ingestion(folder: Path, manifest: Path) -> Figures:
    """Checking a sequence beside reading its files, and a process that builds its store."""
    raw = folder / "raw"
    files = [*raw.glob("train/s0/*/*.png")], [*raw.glob("train/s0/spike/*.dat")]

    def read() -> None:
        for path in files[0]:
            read_rgb(path)
        for path in files[1]:
            read_packed(path, HEIGHT // 2, WIDTH // 2)

    def check() -> None:
        ingest_sequence(raw, find_sequence(raw, "train", "s0", "blur"), "blur")

    times = cpu_times({"read": read, "check": check}, 3)
    found = {name: statistics.median(each) / FRAMES for name, each in times.items()}
    yield "ingest: one frame", found["check"], "ms"
    yield "ingest: reading its files", found["read"], "ms"
    yield "ingest: all / reading", found["check"] / found["read"], "x"
    profile = cProfile.Profile(time.process_time)
    profile.runcall(check)
    calls = pstats.Stats(profile).get_stats_profile().func_profiles
    for name in CHECKS:
        yield f"ingest: {name}", 100 * calls[name].cumtime / calls["check"].cumtime, "%"
    options = (raw, manifest, BINS, folder / "again" / "s.json")
    start = time.perf_counter()
    told = subprocess.check_output([sys.executable, "-c", BUILD, *map(str, options)], text=True)
    yield "voxelize: one frame", 1e3 * (time.perf_counter() - start) / FRAMES, "ms by the clock"
    yield "voxelize: peak memory", int(told.split()[-2]) / 1e3, "MB"


def clips_of(manifest: Path, kind: str = "counts", cache_bytes: int = 0) -> ClipDataset:
    """Training clips as the baseline preset cuts them, of stored ``counts`` or of ``bits``."""
    settings = DataSettings(
        CROP_SIZE=CROP, CLIP_LEN=CLIP, NUM_VOXEL_BINS=BINS, USE_PRECOMPUTED_VOXELS=kind == "counts"
    )
    chunks = ChunkReader(cache_bytes)
    return ClipDataset(load_dataset(manifest), "train", settings, seed=2, reader=chunks)


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


def sample_times(manifest: Path, raw: Path) -> Figures:
    """CPU time of a random training sample, by representation."""
    random = np.random.default_rng(1)
    plain: Works = {
        "PNG and spike files (reference)": lambda: plain_sample(raw / "train" / "s0", random)
    }
    ours: Works = {f"tensorstore, {kind}": Samples(clips_of(manifest, kind)) for kind in KINDS}
    cached: Works = {
        f"tensorstore, {kind}, all cached": Samples(clips_of(manifest, kind, cache_bytes=ENOUGH))
        for kind in KINDS
    }
    cpu_times(ours, 2)  # opens the files
    cpu_times(cached, 150)  # reads every chunk
    warm = cpu_times(plain, 7) | cpu_times({**ours, **cached}, 60)
    for name, times in warm.items():
        yield f"sample: {name}", statistics.median(times), "ms"
    for name in (*ours, *cached):
        # On a busy machine CPU times vary, too: the fastest says what the work itself takes.
        yield f"sample: {name}, fastest of 60", warm[name][0], "ms"
    works = {**plain, **ours}
    cold: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(7):
        for name, work in works.items():
            drop_caches(manifest.parent)
            drop_caches(raw)
            begin = time.perf_counter()
            work()
            cold[name].append(1e3 * (time.perf_counter() - begin))
    for name, times in cold.items():
        yield f"sample: {name}, cold (by the clock)", statistics.median(times), "ms"


def bytes_read(manifest: Path) -> Figures:
    """What a sample reads from files without a cache, and in how many pieces."""
    import tensorstore

    def count(name: str) -> int:
        name = f"/tensorstore/kvstore/file/{name}"
        metrics = tensorstore.experimental_collect_matching_metrics(name)
        found = [metric["values"] for metric in metrics if metric["name"] == name]
        return sum(value["value"] for values in found for value in values)

    for kind in KINDS:
        read, number = Samples(clips_of(manifest, kind)), 200
        read_before = count("bytes_read"), count("batch_read")
        for _ in range(number):
            read()
        size, pieces = count("bytes_read") - read_before[0], count("batch_read") - read_before[1]
        yield f"sample: tensorstore, {kind}, read", size / number / 1e6, "MB"
        yield f"sample: tensorstore, {kind}, pieces read", pieces / number, "pieces"


def batches_of(clips: ClipDataset, workers: int = 0, **loader: int) -> ShuffledBatches:
    """The batches of one clip that a process without a GPU trains on."""
    settings = RunSettings.model_validate({"DATALOADER": loader})
    processes, ranks = Workers(workers, 1, workers, 0), Ranks(0, 0, 1, 1, torch.device("cpu"))
    return ShuffledBatches(clips, settings, processes, ranks)


def loader_rates(manifest: Path, samples: int) -> Figures:
    """Samples a second through two workers, augmentation included, start-up excluded."""
    rates: dict[str, list[float]] = {}
    kinds: dict[str, tuple[str, int]] = {kind: (kind, 0) for kind in KINDS}
    kinds["counts, all cached"] = ("counts", ENOUGH)
    for _ in range(3):
        for title, (kind, cache_bytes) in kinds.items():
            clips = clips_of(manifest, kind, cache_bytes=cache_bytes)
            own = batches_of(clips, workers=2)
            plain = DataLoader(
                clips,
                sampler=[index % len(clips) for index in range(samples)],
                num_workers=2,
                prefetch_factor=4,
                multiprocessing_context="forkserver",
                generator=torch.Generator(),
            )
            for name, stream in (
                (f"{title}, passed on by torch (reference)", plain),
                (title, own.stream(0, 1, samples)),
            ):
                rates.setdefault(name, []).append(_rate(stream, skip=samples // 4))
    for name, found in rates.items():
        yield f"DataLoader: 2 workers, {name}", statistics.median(found), "samples/s"


def _rate(stream: Iterable[Any], skip: int) -> float:
    number, start = 0, 0.0
    for number, _ in enumerate(stream):
        if number == skip:
            start = time.perf_counter()
    return (number - skip) / (time.perf_counter() - start)


def caching(folder: Path) -> Figures:
    """What a cache does whose chunks can be a fifth of the data: 12 sequences of 48 frames."""
    manifest = repeat_data(folder / "many", folder / "raw", sequences=12, frames=48)
    shapes = Store(manifest.parent / "train" / "s0.zarr").layout.shapes
    size = 12 * sum(math.prod(shapes[name]) for name in ("blur", "sharp", "voxels"))
    cache_bytes = int(size / 5 * MEMORY_PER_BYTE)
    yield from cache_memory(manifest, cache_bytes)
    yield from hit_rates(manifest, cache_bytes)
    kinds = {"without a cache": 0, "cache of 20 %": cache_bytes}
    works: Works = {
        title: Samples(clips_of(manifest, cache_bytes=limit)) for title, limit in kinds.items()
    }
    cpu_times(works, 400)  # the cache is full
    for title, times in cpu_times(works, 200).items():
        yield f"sample: tensorstore, counts, {title}, mean", statistics.mean(times), "ms"


def hit_rates(manifest: Path, cache_bytes: int) -> Figures:
    """Hits in the second of two epochs, read by one process in the order of training."""
    for block in (1, 8, 32, 128):
        clips = clips_of(manifest, cache_bytes=cache_bytes)
        batches = batches_of(clips, SHUFFLE_BLOCK=block)
        first = cache_use()
        for number, _ in enumerate(batches.stream(0, 1, 2 * batches.per_epoch), start=1):
            if number == batches.per_epoch:
                first = cache_use()
        second = cache_use() - first
        name = f"cache of 20 %: hits, DATALOADER.SHUFFLE_BLOCK {block}"
        yield name, 100 * second.hit_rate, "%"


def cache_memory(manifest: Path, cache_bytes: int) -> Figures:
    """What the caches of two workers take of the memory that is given to both."""
    taken = []
    for budget in (0, cache_bytes):
        clips = clips_of(manifest, cache_bytes=budget // 2)
        batches = batches_of(clips, workers=2, TRAIN_PREFETCH_FACTOR=2)
        last = 3 * batches.per_epoch
        for number, _ in enumerate(batches.stream(0, 1, last), start=1):
            if number == last - 10:
                taken.append(measure_memory(torch.device("cpu"))["children_mb"] * MEGABYTE)
    yield "cache of 20 %: memory taken of what was given", 100 * (taken[1] - taken[0]) / budget, "%"


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spikes", type=Path, help="a real 88 x 360 x 640 spike file")
    parser.add_argument("--frame", type=Path, help="a real 720 x 1280 frame")
    parser.add_argument("--samples", type=int, default=800, help="through the DataLoader")
    parser.add_argument("--output", type=Path, help="folder for data.csv")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    rows: list[tuple[str, float, str]] = []

    def note(found: Figures) -> None:
        for name, value, unit in found:
            rows.append((name, value, unit))
            print(f"{name:64} {value:10.2f} {unit}", flush=True)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = make_data(folder, arguments.spikes, arguments.frame)
        note(decoding(folder / "raw/train/s0/spike/000000.dat"))
        note(megabytes_per_frame(manifest))
        note(ingestion(folder, folder / "ingest/s0.json"))
        note(sample_times(manifest, folder / "raw"))
        note(bytes_read(manifest))
        note(loader_rates(manifest, arguments.samples))
        note(caching(folder))
    write_figures(rows, arguments.output, "data")


if __name__ == "__main__":
    run(main)
