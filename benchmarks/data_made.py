"""The data that ``benchmarks/data.py`` reads, and what one would write first to read them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.bins import bin_edges
from vrtspike.deblurring.data.clips.dataset import merge_dataset
from vrtspike.deblurring.data.gate.ingest import ingest_sequence
from vrtspike.deblurring.data.raw.layouts.registry import find_sequence
from vrtspike.deblurring.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.deblurring.data.raw.spikes import read_packed, read_spikes, write_spikes
from vrtspike.deblurring.data.store.build import build_store
from vrtspike.deblurring.data.store.layout import StoreLayout
from vrtspike.deblurring.data.store.voxels import voxelize_packed
from vrtspike.deblurring.data.store.writing import StoredFrame, write_store
from vrtspike.io.files import read_json, write_json
from vrtspike.io.images import read_rgb, write_png

HEIGHT, WIDTH, STEPS, BINS, CLIP, CROP = 720, 1280, 88, 32, 5, 256
SEQUENCES, FRAMES = 2, 16


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
                recorded = read_spikes(spikes, HEIGHT // 2, WIDTH // 2)
                write_spikes(target, np.roll(recorded, -place, axis=2))
        ingest = folder / "ingest" / f"s{number}.json"
        files = find_sequence(folder / "raw", "train", f"s{number}", "blur")
        found = ingest_sequence(folder / "raw", files, "blur")
        # One recording stands for every frame, so there are faults.
        found |= {"source_version": "", "recipe": "", "faults": []}
        write_json(ingest, found)
        manifests.append(folder / "k32" / "train" / f"s{number}.json")
        build_store(folder / "raw", ingest, BINS, manifests[-1])
    return _merged(manifests, folder / "k32")


def repeat_data(folder: Path, raw: Path, sequences: int, frames: int) -> Path:
    """A data set of many stores with the same contents, which lie on the disk once."""
    picture = read_rgb(raw / "train/s0/blur/000000.png")
    bits = read_packed(raw / "train/s0/spike/000000.dat", HEIGHT // 2, WIDTH // 2).rows
    names = tuple(f"{number:06d}" for number in range(frames))
    size = (HEIGHT // 2, WIDTH // 2)
    layout = StoreLayout(
        *(names, (len(bits),) * frames, (HEIGHT, WIDTH), size, BINS),
        exposures=(spk_gopro_exposure(len(bits)),) * frames,
    )
    sharp = np.ascontiguousarray(picture[:, ::-1])
    one = StoredFrame(
        picture,
        sharp,
        voxels=voxelize_packed(bits, BINS, spk_gopro_exposure(len(bits)).sharp),
        bits=bits,
    )
    first = folder / "train" / "s0.json"
    written = write_store(first.with_suffix(".zarr"), layout, (one for _ in range(frames)))
    made = read_json(folder.parent / "k32" / "train" / "s0.json")
    manifests = [folder / "train" / f"s{number}.json" for number in range(sequences)]
    for path in manifests:
        store = path.with_suffix(".zarr")
        changes = {"sequence": path.stem, **asdict(written)}
        write_json(path, {**made, **layout.attributes(), **changes, "schema": made["schema"]})
        if path != first:
            shutil.copytree(first.with_suffix(".zarr"), store, copy_function=os.link)
    return _merged(manifests, folder)


def _merged(manifests: list[Path], folder: Path) -> Path:
    path, names = folder / "dataset.json", [f"train/{manifest.stem}" for manifest in manifests]
    accepted = {"sequences": names, "excluded": {}, "overlaps": {}}
    write_json(path, merge_dataset(accepted, folder, dataset="benchmark"))
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
    edges = bin_edges(spk_gopro_exposure(len(spikes)), BINS)
    return np.stack([spikes[a:b].sum(axis=0, dtype=dtype) for a, b in pairwise(edges)])


def plain_sample(root: Path, random: np.random.Generator) -> None:
    """The reference: decode ten PNG files and five spike files, cut, convert to float32."""
    start = int(random.integers(FRAMES - CLIP + 1))
    y, x = (2 * int(random.integers((side - CROP) // 2 + 1)) for side in (HEIGHT, WIDTH))
    for place in range(start, start + CLIP):
        for part in ("blur", "sharp"):
            picture = read_rgb(root / part / f"{place:06d}.png")
            picture[y : y + CROP, x : x + CROP].astype(np.float32)
        voxels = plain_voxels(root / "spike" / f"{place:06d}.dat", np.uint8).astype(np.float32)
        voxels[:, y // 2 : (y + CROP) // 2, x // 2 : (x + CROP) // 2].copy()


def drop_caches(folder: Path) -> None:
    """Let the operating system forget the files of a folder."""
    for path in _files(folder):
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
