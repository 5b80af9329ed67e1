"""How the arrays of stores are best cut and coded: the measurements behind data/store/layout.py.

Arrays with the contents of GoPro's size are written in several ways and crops of training are read
from them by tensorstore. Times are CPU milliseconds of one process for a clip of five frames of one
array (medians), the ways taking turns; from a cold disk by the clock. The memory of a cache is that
of a fresh process, over what its limit lets chunks take.

    python benchmarks/chunks.py [--spikes FILE.dat --frame FILE.png] [--output benchmarks/results]
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import zarr
from data_made import BINS, CLIP, CROP, HEIGHT, WIDTH, drop_caches, make_data
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec

from vrtspike.cli import run
from vrtspike.deblurring.data.store.cache import MEMORY_PER_BYTE
from vrtspike.deblurring.data.store.readers import ArrayRead, ChunkReader
from vrtspike.deblurring.data.store.reading import open_store
from vrtspike.files import read_json
from vrtspike.monitoring.memory import MEGABYTE, measure_memory

FRAMES, SHARD_FRAMES = 240, 4
CACHE_BYTES = 300_000_000


@dataclass(frozen=True)
class Way:
    """A way to store an array: its chunks, and how Blosc compresses them, if it does."""

    array: Literal["blur", "voxels", "bits"]
    chunk: tuple[int, ...]
    codec: Literal["lz4", "zstd"] | None = None
    block_bytes: int = 16_384

    def codecs(self) -> list[Any]:
        """What follows the bytes of a chunk."""
        blosc = BloscCodec(
            cname=self.codec or "lz4", clevel=5, shuffle="bitshuffle", blocksize=self.block_bytes
        )
        return [*([blosc] if self.codec else []), Crc32cCodec()]


WAYS = {
    "frames, bands of 48 rows": Way("blur", (1, 48, 1280, 3)),
    "frames, 60 x 64": Way("blur", (1, 60, 64, 3)),
    "frames, 120 x 128": Way("blur", (1, 120, 128, 3)),
    "frames, 120 x 128, lz4": Way("blur", (1, 120, 128, 3), "lz4"),
    "bits, bands of 24 rows": Way("bits", (1, 88, 24, 80)),
    "bits, 60 x 64": Way("bits", (1, 88, 60, 8)),
    "counts, 30 x 32, lz4": Way("voxels", (1, BINS, 30, 32), "lz4"),
    "counts, 60 x 64, lz4": Way("voxels", (1, BINS, 60, 64), "lz4"),
    "counts, 60 x 64, zstd": Way("voxels", (1, BINS, 60, 64), "zstd"),
    "counts, 60 x 64": Way("voxels", (1, BINS, 60, 64)),
}
CACHED = {
    "frames, 120 x 128": WAYS["frames, 120 x 128"],
    "counts, 60 x 64, lz4": WAYS["counts, 60 x 64, lz4"],
    "counts, 60 x 64, lz4 in Blosc's own blocks": Way("voxels", (1, BINS, 60, 64), "lz4", 0),
}


def write(path: Path, way: Way, frame: NDArray[np.uint8]) -> None:
    """An array of many frames, all of them ``frame``."""
    shape = (FRAMES, *frame.shape)
    whole = (-(-size // part) * part for size, part in zip(frame.shape, way.chunk[1:], strict=True))
    array = zarr.create_array(
        path,
        shape=shape,
        chunks=way.chunk,
        shards=(SHARD_FRAMES, *whole),
        dtype="uint8",
        compressors=way.codecs(),
        fill_value=0,
        config={"write_empty_chunks": True},
    )
    for first in range(0, FRAMES, SHARD_FRAMES):
        array[first : first + SHARD_FRAMES] = np.broadcast_to(frame, (SHARD_FRAMES, *frame.shape))


class Crops:
    """Reads random clips of an array, the same ones in the same order for every way."""

    def __init__(self, path: Path, way: Way, cache_bytes: int = 0) -> None:
        # Not by zarr: its threads would give the allocator arenas that no reader of samples has.
        shape = tuple(read_json(path / "zarr.json")["shape"])
        self._array = way.array
        self._read: ArrayRead = ChunkReader("tensorstore", cache_bytes).open_array(str(path), shape)
        self._planes = slice(0, shape[1])
        self._random = np.random.default_rng(1)

    def __call__(self) -> NDArray[np.uint8]:
        """Read the next one."""
        first = int(self._random.integers(FRAMES - CLIP + 1))
        top = int(self._random.integers((HEIGHT - CROP) // 2 + 1))
        left = int(self._random.integers((WIDTH - CROP) // 2 + 1))
        frames, half = slice(first, first + CLIP), CROP // 2
        if self._array == "blur":
            sides = (slice(2 * top, 2 * top + CROP), slice(2 * left, 2 * left + CROP))
            return self._read((frames, *sides, slice(0, 3)))
        columns = slice(left, left + half)
        if self._array == "bits":
            columns = slice(left // 8, -(-(left + half) // 8))
        return self._read((frames, self._planes, slice(top, top + half), columns))


def reading(folder: Path) -> Iterator[tuple[str, float, str]]:
    """Time of a clip of each way, and its size on the disk."""
    crops = {name: Crops(folder / name, way) for name, way in WAYS.items()}
    warm: dict[str, list[float]] = {name: [] for name in crops}
    cold: dict[str, list[float]] = {name: [] for name in crops}
    for turn in range(60):
        for name, read in crops.items():
            start = time.process_time()
            read()
            if turn >= 5:  # the first ones open files
                warm[name].append(1e3 * (time.process_time() - start))
    for _ in range(9):
        for name, read in crops.items():
            drop_caches(folder / name)
            start = time.perf_counter()
            read()
            cold[name].append(1e3 * (time.perf_counter() - start))
    for name in crops:
        size = sum(p.stat().st_size for p in (folder / name / "c").rglob("*") if p.is_file())
        yield f"{name}", statistics.median(warm[name]), "ms"
        yield f"{name}, cold (by the clock)", statistics.median(cold[name]), "ms"
        yield f"{name}, size", size / FRAMES / 1e6, "MB per frame"


def memory_of_cache(path: Path, way: Way) -> float:
    """Memory that a full cache takes, over what its chunks may take."""
    read = Crops(path, way, int(CACHE_BYTES * MEMORY_PER_BYTE))
    for _ in range(3):
        read()
    before = measure_memory(torch.device("cpu"))["process_mb"]
    for _ in range(1000):
        read()
    return (measure_memory(torch.device("cpu"))["process_mb"] - before) * MEGABYTE / CACHE_BYTES


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spikes", type=Path, help="a real 88 x 360 x 640 spike file")
    parser.add_argument("--frame", type=Path, help="a real 720 x 1280 frame")
    parser.add_argument("--output", type=Path, help="folder for chunks.csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = make_data(folder / "made", arguments.spikes, arguments.frame)
        store = open_store(made.parent / "train" / "s0.zarr")
        for title, way in (WAYS | CACHED).items():
            frame = store.read(way.array, slice(0, 1), slice(None), slice(None))[0]
            write(folder / title, way, frame)
        rows = list(reading(folder))
        for title, way in CACHED.items():
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
                ratio = fresh.submit(memory_of_cache, folder / title, way).result()
            rows.append((f"{title}, memory of a cache over its chunks", ratio, "x"))
    for title, value, unit in rows:
        print(f"{title:72} {value:8.2f} {unit}")
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        with (arguments.output / "chunks.csv").open("w", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(["figure", "value", "unit"])
            table.writerows((title, f"{value:.4g}", unit) for title, value, unit in rows)


if __name__ == "__main__":
    run(main)
