from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from google_crc32c import value as crc32c

from tests.data.conftest import SEQUENCES
from vrtspike.data.gate.ingest import ingest_sequence
from vrtspike.data.raw.spikes import pack_rows, read_spikes
from vrtspike.data.store.build import build_store
from vrtspike.data.store.layout import StoreLayout
from vrtspike.data.store.mapped import MappedArray, MappedCounts
from vrtspike.data.store.readers import ChunkReader
from vrtspike.data.store.reading import Store
from vrtspike.data.store.verify import verify_store
from vrtspike.data.store.voxels import voxelize
from vrtspike.data.store.writing import StoredFrame, write_store
from vrtspike.errors import DataError
from vrtspike.files import read_json, write_json

# Several files of several frames each, the last not full; bands that do not fill the frame.
LAYOUT = StoreLayout(
    tuple(f"{n:06d}" for n in range(7)), (12, 16, 9, 16, 16, 16, 12), (106, 68), (53, 34), 4
)


def frames():
    random = np.random.default_rng(0)
    for steps in LAYOUT.spike_frames:
        spikes = random.integers(0, 2, (steps, 53, 34), dtype=np.uint8)
        pictures = random.integers(0, 256, (2, 106, 68, 3), dtype=np.uint8)
        yield StoredFrame(*pictures, voxels=voxelize(spikes, 4), bits=pack_rows(spikes))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("readers") / "s.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vrtspike.data.store.layout.SHARD_FRAMES", 3)
        write_store(path, LAYOUT, frames())
    return path


def test_all_readers_read_the_same(path):
    random = np.random.default_rng(1)
    stores = [Store(path, ChunkReader(reader)) for reader in ("mapped", "tensorstore", "zarr")]
    for _ in range(40):
        name = list(LAYOUT.shapes)[random.integers(4)]
        shape = LAYOUT.shapes[name]
        axes = (0, 2, 3) if name in ("voxels", "bits") else (0, 1, 2)
        box = [slice(*sorted(random.choice(shape[a] + 1, 2, replace=False))) for a in axes]
        first, *others = [store.read(name, *box) for store in stores]
        assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("reader", ["mapped", "tensorstore", "zarr"])
def test_threads_may_share_a_store(tmp_path, reader):
    random = np.random.default_rng(0)
    names = tuple(f"{n:06d}" for n in range(8))
    layout = StoreLayout(names, (88,) * 8, (256, 384), (128, 192), 32)
    counts = random.integers(0, layout.most_counts + 1, (8, 32, 128, 192), dtype=np.uint8)
    picture, bits = np.ones((256, 384, 3), np.uint8), np.zeros((88, 128, 24), np.uint8)
    write_store(
        tmp_path / "s.zarr", layout, (StoredFrame(picture, picture, c, bits) for c in counts)
    )
    store = Store(tmp_path / "s.zarr", ChunkReader(reader))
    windows = [slice(start, start + 3) for start in range(6)] * 4
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda w: store.read("voxels", w, slice(None), slice(None)), windows)
        assert all(
            np.array_equal(counts[window], read)
            for window, read in zip(windows, found, strict=True)
        )


def test_frames_and_bits_are_mapped_and_counts_are_not(path):
    kinds = {name: read_json(path / name / "zarr.json") for name in LAYOUT.shapes}
    mapped = {name for name, metadata in kinds.items() if MappedArray.can_read(metadata)}
    assert mapped == {"blur", "sharp", "bits"}
    # Rows of 34 columns do not fill whole bytes of a plane of bits.
    assert not MappedCounts.can_read(kinds["voxels"], LAYOUT.most_counts)


@pytest.mark.parametrize(
    ("bins", "steps", "size"),
    [
        (32, 88, (80, 136)),  # as usual: three bits, the last squares not full
        (64, 88, (70, 72)),  # a chunk of two blocks
        (81, 89, (64, 64)),  # of three, the last smaller
        (20, 110, (64, 64)),  # four bits
        (1, 15, (8, 8)),  # so small that blosc does not compress it
    ],
)
def test_counts_by_planes_of_bits_are_those_of_the_library(tmp_path, bins, steps, size):
    random = np.random.default_rng(0)
    rgb = (2 * size[0], 2 * size[1])
    layout = StoreLayout(("1", "2", "3"), (steps, steps, steps), rgb, size, bins)

    def some():
        for number in layout.spike_frames:
            pictures = np.ones((2, *rgb, 3), np.uint8)
            counts = random.integers(0, layout.most_counts + 1, (bins, *size), dtype=np.uint8)
            bits = np.zeros((number, size[0], size[1] // 8), np.uint8)
            yield StoredFrame(*pictures, voxels=counts, bits=bits)

    path = tmp_path / "s.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vrtspike.data.store.layout.SHARD_FRAMES", 2)
        write_store(path, layout, some())
    assert MappedCounts.can_read(read_json(path / "voxels/zarr.json"), layout.most_counts)
    mapped, library = (Store(path, ChunkReader(reader)) for reader in ("mapped", "tensorstore"))
    assert library.read("voxels", slice(0, 3), slice(0, 999), slice(0, 999)).any()
    for _ in range(30):
        sides = (3, *size)
        box = [slice(*sorted(random.choice(n + 1, 2, replace=False))) for n in sides]
        np.testing.assert_array_equal(mapped.read("voxels", *box), library.read("voxels", *box))


def test_numbers_of_many_bits_are_left_to_the_library(path):
    metadata = read_json(path / "voxels/zarr.json")
    inner = metadata["codecs"][0]["configuration"]
    inner["chunk_shape"][-1] = 32
    assert MappedCounts.can_read(metadata, 15)
    assert not MappedCounts.can_read(metadata, 16)
    inner["codecs"].pop()
    assert not MappedCounts.can_read(metadata, 15)


@pytest.mark.parametrize("damage", ["cut", "lost", "empty", "index", "absent", "bit"])
def test_a_damaged_file_is_an_error_when_mapped(path, tmp_path, damage):
    copy = tmp_path / "s.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vrtspike.data.store.layout.SHARD_FRAMES", 3)
        write_store(copy, LAYOUT, frames())
    shard = copy / "sharp/c/1/0/0/0"
    contents = shard.read_bytes()
    if damage == "lost":
        shard.unlink()
    else:
        absent = bytes([255]) * 16 + contents[-9 * 16 - 4 + 16 : -4]
        damaged = {
            "cut": contents[:-200],
            "empty": b"",
            "index": contents[:-20] + bytes([255]) * 8 + contents[-12:],
            "absent": contents[: -9 * 16 - 4] + absent + crc32c(absent).to_bytes(4, "little"),
            "bit": contents[:100] + bytes([contents[100] ^ 4]) + contents[101:],
        }
        shard.write_bytes(damaged[damage])
    store = Store(copy)
    store.read("sharp", slice(0, 3), slice(0, 106), slice(0, 68))
    with pytest.raises(DataError, match="run voxelize again"):
        store.read("sharp", slice(2, 5), slice(0, 106), slice(0, 68))


def test_a_file_system_that_maps_no_files_asks_for_another_reader(path, tmp_path):
    unmapped = Path("/sys/kernel/uevent_seqnum")
    if not unmapped.is_file():
        pytest.skip("needs Linux's /sys, whose files cannot be mapped")
    copy = shutil.copytree(path, tmp_path / "s.zarr")
    (copy / "sharp/c/0/0/0/0").unlink()
    (copy / "sharp/c/0/0/0/0").symlink_to(unmapped)
    with pytest.raises(DataError, match=r"sharp: this file system .* DATA\.READER to tensorstore"):
        Store(copy).read("sharp", slice(0, 1), slice(0, 9), slice(0, 9))


def test_a_store_on_another_file_system(path):
    """As on an object store: only addresses and bytes, no local files."""
    system = MemoryFileSystem()
    system.put(str(path), "/bucket/s.zarr", recursive=True)
    store = Store("memory://bucket/s.zarr")
    assert store.layout == LAYOUT
    here = Store(path)
    for name in LAYOUT.shapes:
        box = (slice(2, 5), slice(7, 40), slice(1, 4))
        np.testing.assert_array_equal(store.read(name, *box), here.read(name, *box))
    with pytest.raises(DataError, match="nothing"):
        Store("memory://bucket/nothing.zarr")


@pytest.mark.parametrize("bins", [1, 2, 7, 11, 32, 44, 63, 81])
def test_counts_and_bits_give_the_same_voxels_for_every_number_of_bins(pristine, tmp_path, bins):
    manifest = tmp_path / "ingest.json"
    split, name = SEQUENCES[0].split("/")
    found = ingest_sequence(pristine, split, name, blur_dir="blur", source_version="v")
    write_json(manifest, found)
    build_store(pristine, manifest, bins, tmp_path / "s.json")
    store = Store(tmp_path / "s.zarr")
    spikes = read_spikes(pristine / found["frames"][1]["spikes"]["path"], 48, 64)
    counts = store.read("voxels", slice(1, 2), slice(0, 48), slice(0, 64))[0]
    np.testing.assert_array_equal(counts, voxelize(spikes, bins))
    bits = store.read("bits", slice(1, 2), slice(0, 48), slice(0, 8))[0]
    np.testing.assert_array_equal(np.unpackbits(bits, axis=2, bitorder="little"), spikes)


WRITER = """
import sys, time
from vrtspike.data.store import build
from vrtspike.data.store.writing import write_store

def slowly(path, layout, frames):
    def trickle():
        for frame in frames:
            yield frame
            print("frame", flush=True)
            time.sleep(60)
    return write_store(path, layout, trickle())

build.write_store = slowly
build.build_store(*sys.argv[1:3], 8, sys.argv[3])
"""


def test_a_killed_writer_leaves_nothing_that_counts_and_the_next_one_cleans_up(pristine, tmp_path):
    manifest, output = tmp_path / "ingest.json", tmp_path / "stores" / "s.json"
    split, name = SEQUENCES[0].split("/")
    found = ingest_sequence(pristine, split, name, blur_dir="blur", source_version="v")
    write_json(manifest, found)
    command = [sys.executable, "-c", WRITER, pristine, manifest, output]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"frame\n"
        os.kill(writer.pid, signal.SIGKILL)
    assert not output.exists()
    assert not output.with_suffix(".zarr").exists()
    assert len(list(output.parent.iterdir())) == 1
    # Another sequence, which another job writes just now.
    other = output.parent / ".s.320.0123abcd.tmp.zarr"
    other.mkdir()
    start = time.time()
    build_store(pristine, manifest, 8, output)
    assert verify_store(output) == []
    assert sorted(p.name for p in output.parent.iterdir()) == [other.name, "s.json", "s.zarr"]
    assert output.stat().st_mtime >= start - 1
