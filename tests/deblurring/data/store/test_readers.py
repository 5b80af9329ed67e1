from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem

from tests.deblurring.data.conftest import SEQUENCES
from vrtspike.deblurring.data.gate.ingest import ingest_sequence
from vrtspike.deblurring.data.raw.spikes import pack_rows, read_spikes
from vrtspike.deblurring.data.store.build import build_store
from vrtspike.deblurring.data.store.layout import StoreLayout
from vrtspike.deblurring.data.store.readers import ChunkReader
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.data.store.verify import verify_store
from vrtspike.deblurring.data.store.voxels import voxelize
from vrtspike.deblurring.data.store.writing import StoredFrame, write_store
from vrtspike.errors import DataError
from vrtspike.files import read_json, write_json

# Several files of several frames each, the last not full; exposures of different lengths.
LAYOUT = StoreLayout(
    tuple(f"{n:06d}" for n in range(7)), (12, 16, 9, 16, 16, 16, 12), (106, 68), (53, 34), 4
)


def frames():
    random = np.random.default_rng(0)
    for steps in LAYOUT.spike_frames:
        spikes = random.integers(0, 2, (steps, 53, 34), dtype=np.uint8)
        pictures = random.integers(0, 256, (2, 106, 68, 3), dtype=np.uint8)
        yield StoredFrame(*pictures, voxels=voxelize(spikes, 4), bits=pack_rows(spikes))


def whole(name):
    """All frames of an array; exposures that are shorter are filled with zeros."""
    shape = LAYOUT.shapes[name]
    result = np.zeros(shape, np.uint8)
    for place, frame in enumerate(frames()):
        values = getattr(frame, name)
        result[place, : len(values)] = values
    return result


def box_of(name, frame, rows, columns):
    planes = [slice(None)] if name in ("voxels", "bits") else []
    return (slice(frame, frame + 1), *planes, rows, columns)


def chunk_range(store, name, frame):
    """Where the first chunk of a frame lies in its file: start and length."""
    metadata = read_json(store / name / "zarr.json")
    shard = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    chunk = metadata["codecs"][0]["configuration"]["chunk_shape"]
    grid = [a // b for a, b in zip(shard, chunk, strict=True)]
    file = store / name / f"c/{frame // shard[0]}/0/0/0"
    index = np.frombuffer(file.read_bytes()[-16 * int(np.prod(grid)) - 4 : -4], "<u8")
    start, size = index.reshape(*grid, 2)[frame % shard[0], 0, 0, 0]
    return int(start), int(size)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("readers") / "s.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vrtspike.deblurring.data.store.layout.SHARD_FRAMES", 3)
        patch.setattr("vrtspike.deblurring.data.store.layout.SQUARE", 48)
        write_store(path, LAYOUT, frames())
    return path


@pytest.fixture
def copy(path, tmp_path):
    return shutil.copytree(path, tmp_path / "s.zarr")


READERS = [
    pytest.param(ChunkReader("tensorstore"), id="tensorstore"),
    pytest.param(ChunkReader("tensorstore", 10**8), id="cached"),
    pytest.param(ChunkReader("zarr"), id="zarr"),
]


@pytest.mark.parametrize("reader", READERS)
def test_every_box_holds_what_was_written(path, reader):
    random = np.random.default_rng(1)
    store = Store(path, reader)
    written = {name: whole(name) for name in LAYOUT.shapes}
    for _ in range(40):
        name = list(LAYOUT.shapes)[random.integers(4)]
        shape = LAYOUT.shapes[name]
        axes = (0, 2, 3) if name in ("voxels", "bits") else (0, 1, 2)
        box = [slice(*sorted(random.choice(shape[a] + 1, 2, replace=False))) for a in axes]
        planes = [slice(None)] if len(shape) == 4 and axes[1] == 2 else []
        expected = written[name][(box[0], *planes, *box[1:])]
        np.testing.assert_array_equal(store.read(name, *box), expected)


@pytest.mark.parametrize("reader", READERS)
def test_threads_may_share_a_store(tmp_path, reader):
    random = np.random.default_rng(0)
    names = tuple(f"{n:06d}" for n in range(8))
    layout = StoreLayout(names, (88,) * 8, (256, 384), (128, 192), 32)
    counts = random.integers(0, 8, (8, 32, 128, 192), dtype=np.uint8)
    picture, bits = np.ones((256, 384, 3), np.uint8), np.zeros((88, 128, 24), np.uint8)
    write_store(
        tmp_path / "s.zarr", layout, (StoredFrame(picture, picture, c, bits) for c in counts)
    )
    store = Store(tmp_path / "s.zarr", reader)
    windows = [slice(start, start + 3) for start in range(6)] * 4
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda w: store.read("voxels", w, slice(None), slice(None)), windows)
        assert all(
            np.array_equal(counts[window], read)
            for window, read in zip(windows, found, strict=True)
        )


def test_chunks_are_equal_parts_of_a_frame():
    layout = StoreLayout(("1",), (88,), (720, 1280), (360, 640), 32)
    assert layout.chunks == {
        "blur": (1, 120, 128, 3),
        "sharp": (1, 120, 128, 3),
        "voxels": (1, 32, 60, 64),
        "bits": (1, 88, 60, 8),
    }


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", LAYOUT.shapes)
def test_a_flipped_bit_is_an_error_after_its_neighbour_was_read(copy, reader, name):
    file, (good, bad) = copy / name / "c/1/0/0/0", (4, 5)
    store = Store(copy, reader)
    rows, columns = slice(0, 9), slice(0, 3)
    sound = store.read(name, slice(good, good + 1), rows, columns)
    np.testing.assert_array_equal(sound, whole(name)[box_of(name, good, rows, columns)])
    start, size = chunk_range(copy, name, bad)
    for place in (start, start + size // 2, start + size - 1):  # the last is of the checksum
        contents = bytearray(file.read_bytes())
        contents[place] ^= 4
        file.write_bytes(contents)
        with pytest.raises(DataError, match=rf"{name}: frames 5 to 6 cannot be read"):
            store.read(name, slice(bad, bad + 1), rows, columns)
        again = store.read(name, slice(good, good + 1), rows, columns)
        np.testing.assert_array_equal(again, sound)
        contents[place] ^= 4
        file.write_bytes(contents)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("damage", ["cut", "lost", "empty", "index"])
def test_a_damaged_file_is_an_error(copy, reader, damage):
    store = Store(copy, reader)
    file = copy / "sharp/c/1/0/0/0"
    contents = file.read_bytes()
    damaged = {
        "cut": contents[:-200],
        "empty": b"",
        "index": contents[:-20] + bytes([255]) * 8 + contents[-12:],
    }
    if damage == "lost":
        file.unlink()
    else:
        file.write_bytes(damaged[damage])
    with pytest.raises(DataError, match="run snakemake again"):
        store.read("sharp", slice(2, 5), slice(0, 106), slice(0, 68))


@pytest.mark.parametrize("cache_bytes", [0, 10**7])
def test_a_chunk_that_is_absent_is_an_error_and_not_black(copy, cache_bytes):
    array = zarr.open_array(copy / "sharp", mode="r+", config={"write_empty_chunks": False})
    array[4] = 0
    store = Store(copy, ChunkReader("tensorstore", cache_bytes))
    with pytest.raises(DataError, match=r"frames 4 to 5 cannot be read .* run snakemake again"):
        store.read("sharp", slice(4, 5), slice(0, 9), slice(0, 9))


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
from vrtspike.deblurring.data.store import build
from vrtspike.deblurring.data.store.writing import write_store

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
    start = time.time()
    build_store(pristine, manifest, 8, output)
    assert verify_store(output) == []
    assert sorted(p.name for p in output.parent.iterdir()) == ["s.json", "s.zarr"]
    assert output.stat().st_mtime >= start - 1
