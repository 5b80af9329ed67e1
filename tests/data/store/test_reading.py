"""Stores are written and read: every box of every array, damage, caches."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import numpy as np
import psutil
import pytest
import zarr

from tests.data.prepared import random_frames, store_metadata
from vrtspike.data.store import reading
from vrtspike.data.store.metadata import StoreMetadata
from vrtspike.data.store.reading import Store, cache_share, trim_memory
from vrtspike.data.store.writing import write_store
from vrtspike.deblurring_settings.data import DataSettings
from vrtspike.system.errors import DataError

# Several files of several frames each, the last not full; sizes that are no multiples of chunks.
METADATA = store_metadata((12, 16, 9, 16, 16, 16, 12), (106, 68), (53, 34))


def whole(name):
    """All frames of an array; exposures that are shorter are filled with zeros."""
    result = np.zeros(METADATA.shapes[name], np.uint8)
    for place, frame in enumerate(random_frames(METADATA)):
        result[place, : len(frame[name])] = frame[name]
    return result


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("readers") / "s.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vrtspike.data.store.metadata.MAX_FILE_FRAMES", 3)
        patch.setattr("vrtspike.data.store.metadata.SQUARE", 48)
        write_store(path, METADATA, random_frames(METADATA))
    return path


@pytest.fixture
def copy(path, tmp_path):
    return shutil.copytree(path, tmp_path / "s.zarr")


with_and_without_cache = pytest.mark.parametrize(
    "cache_bytes", [pytest.param(0, id="no cache"), pytest.param(10**8, id="cached")]
)


@with_and_without_cache
def test_every_box_holds_what_was_written(path, cache_bytes):
    random = np.random.default_rng(1)
    store = Store(path, cache_bytes)
    assert store.metadata == METADATA
    written = {name: whole(name) for name in METADATA.shapes}
    for _ in range(40):
        name = list(METADATA.shapes)[random.integers(4)]
        shape = METADATA.shapes[name]
        axes = (0, 2, 3) if name in ("voxels", "bits") else (0, 1, 2)
        box = [slice(*sorted(random.choice(shape[a] + 1, 2, replace=False))) for a in axes]
        planes = [slice(None)] if len(shape) == 4 and axes[1] == 2 else []
        expected = written[name][(box[0], *planes, *box[1:])]
        np.testing.assert_array_equal(store.read(name, *box), expected)


def test_a_frame_is_read_whole_by_its_number(path):
    store = Store(path)
    for name in METADATA.shapes:
        np.testing.assert_array_equal(store.frame(name, 2), whole(name)[2])


@with_and_without_cache
def test_threads_may_share_a_store(path, cache_bytes):
    store = Store(path, cache_bytes)
    expected = whole("voxels")
    windows = [slice(start, start + 3) for start in range(5)] * 4
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda w: store.read("voxels", w, slice(None), slice(None)), windows)
        for window, read in zip(windows, results, strict=True):
            np.testing.assert_array_equal(read, expected[window])


def _read_in_worker(store: Store) -> int:
    return int(store.read("blur", slice(0, 3), slice(0, 8), slice(0, 8)).sum())


def test_an_opened_store_travels_to_a_worker_process(path):
    store = Store(path, 10**7)
    here = _read_in_worker(store)
    assert pickle.loads(pickle.dumps(store)).metadata == METADATA
    # No `with`: it ends workers by a signal, which those of training's server ignore.
    pool = multiprocessing.get_context("forkserver").Pool(1)
    assert pool.apply_async(_read_in_worker, (store,)).get(timeout=800) == here
    pool.close()
    pool.join()


@with_and_without_cache
@pytest.mark.parametrize("damage", ["cut", "lost", "empty", "index", "absent chunk", "metadata"])
def test_a_damaged_array_is_an_error_and_not_black(copy, cache_bytes, damage):
    everything = slice(4, 5), slice(0, 106), slice(0, 68)
    Store(copy, cache_bytes).read("sharp", *everything)  # what was read before is no excuse
    store = Store(copy, cache_bytes)
    file = copy / "sharp/c/1/0/0/0"
    contents = file.read_bytes()
    if damage == "lost":
        file.unlink()
    elif damage == "metadata":
        (copy / "sharp/zarr.json").unlink()
    elif damage == "absent chunk":
        array = zarr.open_array(copy / "sharp", mode="r+", config={"write_empty_chunks": False})
        array[4] = 0
    else:
        damaged = {
            "cut": contents[:-200],
            "empty": b"",
            "index": contents[:-20] + bytes([255]) * 8 + contents[-12:],
        }
        file.write_bytes(damaged[damage])
    with pytest.raises(DataError, match=r"frames 4 to 4 cannot be read .* run snakemake again"):
        store.read("sharp", *everything)


def test_missing_stores_and_those_of_other_versions(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.zarr: no store that can be read"):
        Store(tmp_path / "nothing.zarr")
    (tmp_path / "zarr.json").write_text('{"attributes": {"schema": 99}}')
    with pytest.raises(DataError, match="found schema 99, expected 4"):
        Store(tmp_path)


# --- Writing --------------------------------------------------------------------------------------


def test_digest_is_of_the_contents_and_not_of_their_packing(tmp_path, monkeypatch):
    first = write_store(tmp_path / "a.zarr", METADATA, random_frames(METADATA))
    monkeypatch.setattr("vrtspike.data.store.metadata.SQUARE", 32)
    assert write_store(tmp_path / "b.zarr", METADATA, random_frames(METADATA)) == first
    assert write_store(tmp_path / "c.zarr", METADATA, random_frames(METADATA, 1)) != first
    renamed = replace(METADATA, frames=tuple("1234567"))
    assert write_store(tmp_path / "d.zarr", renamed, random_frames(METADATA)) != first


def test_a_failed_write_leaves_the_old_store(tmp_path):
    path = tmp_path / "s.zarr"
    write_store(path, METADATA, random_frames(METADATA))

    def breaking():
        yield from list(random_frames(METADATA, 1))[:2]
        raise DataError("disk on fire")

    with pytest.raises(DataError, match="on fire"):
        write_store(path, METADATA, breaking())
    with pytest.raises(ValueError, match="shorter"):
        write_store(path, METADATA, list(random_frames(METADATA, 1))[:2])
    with pytest.raises(ValueError, match="bits of frame 3"):
        write_store(path, METADATA, reversed(list(random_frames(METADATA, 1))))
    dark = [{**frame, "bits": 0 * frame["bits"]} for frame in random_frames(METADATA)]
    with pytest.raises(DataError, match=r"s\.zarr: not a single spike where"):
        write_store(path, METADATA, dark)
    assert [p.name for p in tmp_path.iterdir()] == ["s.zarr"]
    got = Store(path).read("blur", slice(0, 1), slice(None), slice(None))
    np.testing.assert_array_equal(got[0], next(random_frames(METADATA))["blur"])


def test_sizes_of_arrays_and_chunks():
    metadata = store_metadata((56, 88), (360, 640), (180, 320), 32)
    assert metadata.ratio == 2
    assert metadata.shapes == {
        "blur": (2, 360, 640, 3),
        "sharp": (2, 360, 640, 3),
        "voxels": (2, 32, 180, 320),
        "bits": (2, 88, 180, 40),
    }
    # Equal parts of at most 128 pixels: three in 360 rows, five in 640 columns.
    assert metadata.chunks == {
        "blur": (1, 120, 128, 3),
        "sharp": (1, 120, 128, 3),
        "voxels": (1, 32, 60, 64),
        "bits": (1, 88, 60, 8),
    }
    assert StoreMetadata.from_attributes(asdict(metadata)) == metadata
    odd = store_metadata((16,), (24, 26), (24, 26))
    assert (odd.ratio, odd.shapes["bits"]) == (1, (1, 16, 24, 4))
    plain = StoreMetadata(("1",), (), (24, 26), None, 4)
    assert (plain.ratio, set(plain.shapes)) == (1, {"blur", "sharp"})
    # Writers and tensorstore hold what shares a file, 32 frames at most.
    for lengths, size, shared in (
        ((88,) * 3, (720, 1280), 3),
        ((700,) * 3, (720, 1280), 1),
        ((16,) * 40, (16, 16), 32),
    ):
        half = (size[0] // 2, size[1] // 2)
        assert store_metadata(lengths, size, half).frames_per_file == shared


# --- The cache; what reading clips makes of it: tests/data/clips/test_dataset.py ---------


@pytest.mark.parametrize(("cache_bytes", "times"), [(0, 0), (10**6, 2)])
def test_a_cache_gives_free_memory_back_now_and_then(path, monkeypatch, cache_bytes, times):
    trimmed = []
    monkeypatch.setattr(reading, "TRIM_EVERY", 3)
    monkeypatch.setattr(reading, "trim_memory", lambda: trimmed.append(1))
    store = Store(path, cache_bytes)
    # Twice the interval, wherever the count stands.
    for number in range(6):
        store.read("blur", slice(number, number + 1), slice(None), slice(None))
    assert len(trimmed) == times


def test_memory_that_is_free_between_chunks_goes_back_to_the_system():
    chunks = [np.ones(46_080, np.uint8) for _ in range(4000)]
    kept = chunks[::64]
    before = psutil.Process().memory_info().rss
    del chunks
    trim_memory()
    assert before - psutil.Process().memory_info().rss > 120e6
    assert all(chunk.all() for chunk in kept)


def test_cache_budget_is_one_for_the_machine():
    assert cache_share(DataSettings(), 8) == 500_000_000  # on by default
    assert cache_share(DataSettings(CACHE_SIZE_GB=2.0), 0) == 2_000_000_000
    assert cache_share(DataSettings(USE_RAM_CACHE=False), 8) == 0
