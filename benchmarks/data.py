"""How fast data are read, with a plain reference in the same run.

A data set of GoPro's size per frame (720 x 1280 RGB, 88 x 360 x 640 spikes) is made in a temporary
folder and read as training reads it. The references are what one would write first: PNG files
decoded for every sample, and voxels summed bin by bin in Python. Times are CPU milliseconds of one
process (medians), so that a busy machine changes them little; rates are by the clock.

    python benchmarks/data.py [--spikes FILE.dat --frame FILE.png] [--output benchmarks/results]
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from vrtspike.cli import run
from vrtspike.config.schema import DataSettings
from vrtspike.data.build import build_store
from vrtspike.data.clips import ClipDataset
from vrtspike.data.dataset import merge_dataset
from vrtspike.data.images import read_rgb, write_png
from vrtspike.data.ingest import ingest_sequence
from vrtspike.data.spikes import read_rows, write_spikes
from vrtspike.data.store import StoreLayout, open_store
from vrtspike.data.voxels import bin_edges, voxelize_packed
from vrtspike.files import write_json
from vrtspike.training.batches import ShuffledBatches

HEIGHT, WIDTH, STEPS, BINS, CLIP, CROP = 720, 1280, 88, 32, 5, 256
SEQUENCES, FRAMES = 2, 16

# Runs a program and prints its own peak memory: the parent's would count for its children.
MEASURED = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    assert not end.code
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""


def cpu_ms(work: Callable[[], Any], repeat: int) -> float:
    """Median CPU time of this process for one call, in milliseconds."""
    return statistics.median(cpu_times(work, repeat))


def cpu_times(work: Callable[[], Any], repeat: int) -> list[float]:
    """CPU times of this process for one call each, in milliseconds, sorted."""
    work()
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - start))
    return sorted(times)


def make_data(folder: Path, spikes: Path | None, frame: Path | None) -> Path:
    """Build the data set and return its manifest."""
    random = np.random.default_rng(0)
    if frame is None:
        noise = random.random((HEIGHT, WIDTH + 64, 3), dtype=np.float32)
        scene = np.asarray(cv2.GaussianBlur(noise, (0, 0), 3), dtype=np.float32)
        scene += 0.02 * random.standard_normal(scene.shape, dtype=np.float32)
        picture = np.clip(255 * (0.5 + 5 * (scene - scene.mean())), 0, 255).astype(np.uint8)
    else:
        picture = np.pad(read_rgb(frame), ((0, 0), (0, 64), (0, 0)), mode="reflect")
    manifests = []
    for number in range(SEQUENCES):
        root = folder / "raw" / "train" / f"s{number}"
        for place in range(FRAMES):
            shown = np.ascontiguousarray(picture[:, 2 * place : 2 * place + WIDTH])
            shown[0, 0] = number, place, 0
            for part in ("blur", "sharp"):
                write_png(root / part / f"{place:06d}.png", shown)
            target = root / "spike" / f"{place:06d}.dat"
            if spikes is None:
                write_spikes(target, _spikes_of(shown, random))
            else:
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(spikes.read_bytes())
        ingest = folder / "ingest" / f"s{number}.json"
        found = ingest_sequence(
            folder / "raw", "train", f"s{number}", blur_dir="blur", source_version="benchmark"
        )
        found["faults"] = []  # one recording stands for every frame
        write_json(ingest, found)
        manifests.append(folder / "k32" / "train" / f"s{number}.json")
        build_store(folder / "raw", ingest, BINS, manifests[-1])
    path = folder / "k32" / "dataset.json"
    write_json(path, merge_dataset(manifests, dataset="benchmark", bins=BINS, folder=path.parent))
    return path


def _spikes_of(picture: NDArray[np.uint8], random: np.random.Generator) -> NDArray[np.uint8]:
    """Spikes at a rate of grey / 2: a threshold crossing of a ramp with a random start."""
    gray = cv2.resize(picture, (WIDTH // 2, HEIGHT // 2), interpolation=cv2.INTER_AREA)
    rate = np.asarray(gray, dtype=np.float32).mean(axis=2) / 510
    start = random.random(rate.shape, dtype=np.float32)
    levels = [np.floor(start + rate * step) for step in range(STEPS + 1)]
    return np.stack([b > a for a, b in pairwise(levels)]).astype(np.uint8)


def plain_voxels(path: Path, dtype: type | None = None) -> NDArray[Any]:
    """The reference: all bits to bytes, then a sum over each bin."""
    raw = np.fromfile(path, dtype=np.uint8).reshape(-1, HEIGHT * WIDTH // 32)
    bits = np.unpackbits(raw, axis=1, bitorder="little")
    spikes = bits.reshape(-1, HEIGHT // 2, WIDTH // 2)[:, ::-1]
    edges = bin_edges(len(spikes), BINS)
    return np.stack([spikes[a:b].sum(axis=0, dtype=dtype) for a, b in pairwise(edges)])


def plain_sample(root: Path, random: np.random.Generator) -> None:
    """The reference: decode ten PNG files and five spike files, cut, convert to float32."""
    start = int(random.integers(FRAMES - CLIP + 1))
    y, x = 2 * int(random.integers(233)), 2 * int(random.integers(513))
    for place in range(start, start + CLIP):
        for part in ("blur", "sharp"):
            picture = read_rgb(root / part / f"{place:06d}.png")
            picture[y : y + CROP, x : x + CROP].astype(np.float32)
        voxels = plain_voxels(root / "spike" / f"{place:06d}.dat", np.uint8).astype(np.float32)
        voxels[:, y // 2 : (y + CROP) // 2, x // 2 : (x + CROP) // 2].copy()


def settings(**values: Any) -> DataSettings:  # noqa: ANN401 - any setting
    return DataSettings.model_validate({"CROP_SIZE": CROP, "CLIP_LEN": CLIP, "K": BINS, **values})


def drop_caches(folder: Path) -> None:
    """Let the operating system forget these files."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sample_times(manifest: Path, raw: Path) -> Iterable[tuple[str, float, str]]:
    """CPU time of a random training sample, by reader and representation."""
    random = np.random.default_rng(1)
    plain = cpu_ms(lambda: plain_sample(raw / "train" / "s0", random), 7)
    yield "sample: PNG and spike files (reference)", plain, "ms"
    for reader in ("mapped", "tensorstore", "zarr"):
        for precomputed in (True, False):
            data = settings(READER=reader, USE_PRECOMPUTED_VOXELS=precomputed)
            clips = ClipDataset(manifest, "train", data, seed=2)

            def read(clips: ClipDataset = clips) -> Any:  # noqa: ANN401 - a sample
                return clips[int(random.integers(len(clips)))]

            kind = "counts" if precomputed else "bits"
            times = cpu_times(read, 60)
            yield f"sample: {reader}, {kind}", statistics.median(times), "ms"
            # On a busy machine CPU times vary, too: the fastest says what the work itself takes.
            yield f"sample: {reader}, {kind}, fastest of 60", times[0], "ms"
            walls = []
            for _ in range(3):
                drop_caches(manifest.parent)
                begin = time.perf_counter()
                read()
                walls.append(1e3 * (time.perf_counter() - begin))
            yield f"sample: {reader}, {kind}, cold (by the clock)", statistics.median(walls), "ms"


def loader_rate(manifest: Path, workers: int, samples: int, **values: Any) -> float:  # noqa: ANN401
    """Samples a second through worker processes, augmentation included, start-up excluded."""
    clips = ClipDataset(manifest, "train", settings(**values), seed=3)
    order = [index % len(clips) for index in range(samples)]
    loader = DataLoader(
        clips,
        batch_size=1,
        sampler=order,
        num_workers=workers,
        prefetch_factor=4,
        multiprocessing_context="forkserver",
        generator=torch.Generator(),
    )
    skip = 8 * workers
    start = 0.0
    for number, _ in enumerate(loader):
        if number == skip:
            start = time.perf_counter()
    return (samples - skip - 1) / (time.perf_counter() - start)


def megabytes_per_frame(manifest: Path) -> Iterable[tuple[str, float, str]]:
    """Size on disk of each array and of all, per frame."""
    total = 0.0
    store = next(manifest.parent.glob("*/*.zarr"))
    for name in open_store(store).layout.shapes:
        files = [p for p in manifest.parent.glob(f"*/*.zarr/{name}/**/*") if p.is_file()]
        size = sum(path.stat().st_size for path in files) / (SEQUENCES * FRAMES * 1e6)
        total += size
        yield f"store: {name}", size, "MB per frame"
    yield "store: all arrays", total, "MB per frame"


def hit_rates() -> Iterable[tuple[str, float, str]]:
    """Hits of a least-recently-used cache that holds 17 % of the counts of GoPro's training split.

    22 sequences of 95 or 96 frames, clips of 5, crops of 256 in 720 x 1280, in the order in which
    training reads them; counted chunk by chunk for the second epoch.
    """
    lengths = [95 + number % 2 for number in range(22)]
    clips = [(n, start) for n, length in enumerate(lengths) for start in range(length - CLIP + 1)]
    side = StoreLayout(("",), (STEPS,), (HEIGHT, WIDTH), (360, 640), BINS).chunks["voxels"][2]
    chunks = sum(lengths) * -(-360 // side) * -(-640 // side)
    for block in (1, 8, 32, 128):
        order = ShuffledBatches(clips, 1, seed=1, block=block)
        cache: OrderedDict[tuple[int, ...], None] = OrderedDict()
        hits = total = 0
        for [(epoch, index)] in order.keys(0, 1, 2 * len(clips)):
            sequence, start = clips[index]
            random = np.random.default_rng([1, epoch, index])
            top, left = int(random.integers(233)), int(random.integers(513))
            for place in itertools.product(
                range(start, start + CLIP),
                range(top // side, (top + CROP // 2 - 1) // side + 1),
                range(left // side, (left + CROP // 2 - 1) // side + 1),
            ):
                key = (sequence, *place)
                hits += epoch * (key in cache)
                total += epoch
                cache[key] = None
                cache.move_to_end(key)
                if len(cache) > 0.17 * chunks:
                    cache.popitem(last=False)
        yield f"cache of 17 %: hits, DATALOADER.SHUFFLE_BLOCK {block}", 100 * hits / total, "%"


def ingestion(folder: Path, manifest: Path) -> Iterable[tuple[str, float, str]]:
    """Time and peak memory of the job that builds the store of one sequence."""
    program = Path(__file__).parent.parent / "scripts" / "voxelize.py"
    options = ["--root", folder / "raw", "--manifest", manifest, "--bins", BINS]
    command = [sys.executable, "-c", MEASURED, program, *options]
    start = time.perf_counter()
    done = subprocess.run(
        [str(part) for part in (*command, "--output", folder / "again" / "s.json")],
        check=True,
        capture_output=True,
        text=True,
    )
    yield "voxelize: one frame", 1e3 * (time.perf_counter() - start) / FRAMES, "ms by the clock"
    yield "voxelize: peak memory", int(done.stdout.split()[-2]) / 1e3, "MB"


def decoding(path: Path) -> Iterable[tuple[str, float, str]]:
    """Spike file to 32 bins."""

    def ours() -> NDArray[np.uint8]:
        return voxelize_packed(read_rows(path, HEIGHT // 2, WIDTH // 2), BINS)

    assert np.array_equal(ours(), plain_voxels(path))
    plain, small = (
        cpu_ms(lambda: plain_voxels(path), 7),
        cpu_ms(lambda: plain_voxels(path, np.uint8), 15),
    )
    mine = cpu_ms(ours, 31)
    yield "voxels: unpackbits and sum (reference)", plain, "ms"
    yield "voxels: unpackbits and sum in 8 bits (reference)", small, "ms"
    yield "voxels: this project", mine, "ms"
    yield "voxels: reference / this project", plain / mine, "x"
    yield "voxels: 8-bit reference / this project", small / mine, "x"


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spikes", type=Path, help="a real 88 x 360 x 640 spike file")
    parser.add_argument("--frame", type=Path, help="a real 720 x 1280 frame")
    parser.add_argument("--samples", type=int, default=400, help="through the DataLoader")
    parser.add_argument("--output", type=Path, help="folder for data.csv")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    rows: list[tuple[str, float, str]] = []

    def note(found: Iterable[tuple[str, float, str]]) -> None:
        for name, value, unit in found:
            rows.append((name, value, unit))
            print(f"{name:58} {value:10.2f} {unit}", flush=True)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = make_data(folder, arguments.spikes, arguments.frame)
        note(decoding(folder / "raw/train/s0/spike/000000.dat"))
        note(megabytes_per_frame(manifest))
        note(ingestion(folder, folder / "ingest/s0.json"))
        note(sample_times(manifest, folder / "raw"))
        for kind, precomputed in (("counts", True), ("bits", False)):
            values = {"USE_PRECOMPUTED_VOXELS": precomputed}
            rate = loader_rate(manifest, 2, arguments.samples, **values)
            note([(f"DataLoader: 2 workers, {kind}", rate, "samples/s")])
    note(hit_rates())
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        with (arguments.output / "data.csv").open("w", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(["figure", "value", "unit"])
            table.writerows((name, f"{value:.4g}", unit) for name, value, unit in rows)
    sys.stdout.flush()


if __name__ == "__main__":
    run(main)
