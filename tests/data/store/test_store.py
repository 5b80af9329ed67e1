from __future__ import annotations

import multiprocessing
import pickle
from dataclasses import replace

import numpy as np
import pytest

from vrtspike.data.raw.spikes import pack_rows
from vrtspike.data.store.layout import StoreLayout
from vrtspike.data.store.readers import ChunkReader
from vrtspike.data.store.reading import Store, open_store
from vrtspike.data.store.voxels import voxelize
from vrtspike.data.store.writing import StoredFrame, write_store
from vrtspike.errors import DataError

# Sizes that are no multiples of chunks, and exposures of different lengths.
LAYOUT = StoreLayout(("000004", "000005", "000006"), (24, 16, 24), (140, 164), (70, 82), 8)
READERS = ("tensorstore", "zarr")


def frames(seed=0):
    random = np.random.default_rng(seed)
    for steps in LAYOUT.spike_frames:
        spikes = random.integers(0, 2, (steps, 70, 82), dtype=np.uint8)
        yield StoredFrame(
            blur=random.integers(0, 256, (140, 164, 3), dtype=np.uint8),
            sharp=random.integers(0, 256, (140, 164, 3), dtype=np.uint8),
            voxels=voxelize(spikes, 8),
            bits=pack_rows(spikes),
        )


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "s.zarr"
    write_store(path, LAYOUT, frames())
    return path


@pytest.mark.parametrize("reader", READERS)
def test_crops_of_all_arrays_come_back(path, reader):
    store = open_store(path, ChunkReader(reader))
    assert store.layout == LAYOUT
    for name in LAYOUT.shapes:
        arrays = [getattr(frame, name) for frame in frames()]
        if name == "bits":
            arrays = [np.pad(a, ((0, 24 - len(a)), (0, 0), (0, 0))) for a in arrays]
        whole = np.stack(arrays)
        rows, columns = slice(5, 69), slice(3, 10)
        got = store.read(name, slice(1, 3), rows, columns)
        planes = name in ("voxels", "bits")
        expected = whole[1:3, :, rows, columns] if planes else whole[1:3, rows, columns]
        np.testing.assert_array_equal(got, expected)
        everything = store.read(name, slice(0, 3), slice(None), slice(None))
        np.testing.assert_array_equal(everything, whole)


def test_digest_is_of_the_contents_and_not_of_their_packing(tmp_path, monkeypatch):
    first = write_store(tmp_path / "a.zarr", LAYOUT, frames())
    monkeypatch.setattr("vrtspike.data.store.layout.SQUARE", 32)
    assert write_store(tmp_path / "b.zarr", LAYOUT, frames()) == first
    assert write_store(tmp_path / "c.zarr", LAYOUT, frames(1)) != first
    renamed = StoreLayout(("1", "2", "3"), *list(LAYOUT.__dict__.values())[1:])
    assert write_store(tmp_path / "d.zarr", renamed, frames()) != first


def test_frames_without_a_single_spike_are_refused_and_leave_nothing(tmp_path):
    dark = [replace(frame, voxels=0 * frame.voxels) for frame in frames()]
    with pytest.raises(DataError, match=r"s\.zarr: not a single spike in 3 frames"):
        write_store(tmp_path / "s.zarr", LAYOUT, dark)
    assert list(tmp_path.iterdir()) == []


def test_only_codecs_of_the_specification(path):
    text = (path / "voxels" / "zarr.json").read_text()
    assert "numcodecs" not in text
    assert "bitshuffle" in text


def test_a_failed_write_leaves_the_old_store(tmp_path):
    path = tmp_path / "s.zarr"
    write_store(path, LAYOUT, frames())

    def breaking():
        yield from list(frames(1))[:2]
        raise DataError("disk on fire")

    with pytest.raises(DataError, match="on fire"):
        write_store(path, LAYOUT, breaking())
    with pytest.raises(ValueError, match="2 frames given"):
        write_store(path, LAYOUT, list(frames(1))[:2])
    with pytest.raises(ValueError, match="bits of frame 1"):
        write_store(path, LAYOUT, reversed(list(frames(1))[:2]))
    assert [p.name for p in tmp_path.iterdir()] == ["s.zarr"]
    got = open_store(path).read("blur", slice(0, 1), slice(None), slice(None))
    np.testing.assert_array_equal(got[0], next(frames()).blur)


@pytest.mark.parametrize("reader", READERS)
def test_damage_is_an_error_and_not_zeros(tmp_path, reader):
    path = tmp_path / "s.zarr"
    write_store(path, LAYOUT, frames())
    shard = next(p for p in (path / "blur").rglob("*") if p.is_file() and p.name != "zarr.json")
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(DataError, match="run voxelize again"):
        open_store(path, ChunkReader(reader)).read("blur", slice(0, 3), slice(None), slice(None))


def test_missing_stores_and_arrays(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.zarr: no readable store"):
        open_store(tmp_path / "nothing.zarr")
    (tmp_path / "zarr.json").write_text('{"attributes": {"schema": 99}}')
    with pytest.raises(DataError, match=r"not a store .* found schema 99, expected 3"):
        open_store(tmp_path)


def _read_in_worker(store: Store) -> int:
    return int(store.read("blur", slice(0, 3), slice(0, 8), slice(0, 8)).sum())


@pytest.mark.parametrize("reader", READERS)
def test_an_opened_store_travels_to_a_worker_process(path, reader):
    store = open_store(path, ChunkReader(reader))
    here = _read_in_worker(store)
    assert pickle.loads(pickle.dumps(store)).layout == LAYOUT
    # No `with`: it ends workers by a signal, which those of training's server ignore.
    pool = multiprocessing.get_context("forkserver").Pool(1)
    assert pool.apply_async(_read_in_worker, (store,)).get(timeout=60) == here
    pool.close()
    pool.join()


def test_long_exposures_share_no_file():
    """Writers and tensorstore hold what shares a file."""
    usual = StoreLayout(LAYOUT.frames, (88,) * 3, (720, 1280), (360, 640), 32)
    assert usual.shard_frames == 3
    assert StoreLayout(LAYOUT.frames, (700,) * 3, (720, 1280), (360, 640), 32).shard_frames == 1
