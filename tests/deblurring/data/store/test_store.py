from __future__ import annotations

import multiprocessing
import pickle
from dataclasses import replace

import numpy as np
import pytest

from vrtspike.deblurring.data.raw.spikes import pack_rows
from vrtspike.deblurring.data.store.layout import StoreLayout
from vrtspike.deblurring.data.store.readers import ChunkReader
from vrtspike.deblurring.data.store.reading import Store, open_store
from vrtspike.deblurring.data.store.voxels import voxelize
from vrtspike.deblurring.data.store.writing import ContentDigest, StoredFrame, write_store
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
    monkeypatch.setattr("vrtspike.deblurring.data.store.layout.SQUARE", 32)
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
    with pytest.raises(DataError, match="run snakemake again"):
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
    # Small frames: no more than 32 share a file.
    names = tuple(map(str, range(40)))
    assert StoreLayout(names, (16,) * 40, (16, 16), (8, 8), 4).shard_frames == 32


def test_sizes_of_arrays_and_chunks():
    layout = StoreLayout(("1", "2"), (56, 88), (360, 640), (180, 320), 32)
    assert layout.scale == 2
    assert layout.shapes == {
        "blur": (2, 360, 640, 3),
        "sharp": (2, 360, 640, 3),
        "voxels": (2, 32, 180, 320),
        "bits": (2, 88, 180, 40),
    }
    # Equal parts of at most 128 pixels: three in 360 rows, five in 640 columns.
    assert layout.chunks == {
        "blur": (1, 120, 128, 3),
        "sharp": (1, 120, 128, 3),
        "voxels": (1, 32, 60, 64),
        "bits": (1, 88, 60, 8),
    }
    assert layout.nbytes == 2 * (2 * 360 * 640 * 3 + 32 * 180 * 320 + 88 * 180 * 40)
    assert StoreLayout.from_attributes(layout.attributes()) == layout
    odd = StoreLayout(("1",), (16,), (24, 26), (24, 26), 4)
    assert (odd.scale, odd.shapes["bits"]) == (1, (1, 16, 24, 4))
    plain = StoreLayout(("1",), (), (24, 26), None, 4)
    assert (plain.scale, set(plain.shapes)) == (1, {"blur", "sharp"})


def test_the_gain_takes_each_exposure_by_its_own_length(tmp_path):
    products = squares = 0.0
    for frame, steps in zip(frames(), LAYOUT.spike_frames, strict=True):
        gray = np.rint(frame.blur @ np.array([0.299, 0.587, 0.114], np.float32)) / 255
        rate = frame.voxels.sum(axis=0) / steps
        products += (gray.reshape(70, 2, 82, 2).mean(axis=(1, 3)) * rate).sum()
        squares += (rate**2).sum()
    gain = write_store(tmp_path / "a.zarr", LAYOUT, frames()).gain
    assert gain == pytest.approx(products / squares, rel=1e-4)


def test_shorter_exposures_end_in_zeros_whatever_was_before(tmp_path):
    """Frames of several files, whose buffer is used again."""
    layout = StoreLayout(tuple("123456"), (24, 16) * 3, (16, 16), (8, 8), 4)
    random = np.random.default_rng(0)
    written = [
        StoredFrame(
            *random.integers(0, 256, (2, 16, 16, 3), dtype=np.uint8),
            voxels=np.full((4, 8, 8), number + 1, np.uint8),
            bits=np.full((steps, 8, 1), 255, np.uint8),
        )
        for number, steps in enumerate(layout.spike_frames)
    ]
    assert layout.shard_frames == 6
    for size in (6, 1, 4):
        kind = type("Cut", (StoreLayout,), {"shard_frames": size})
        cut = kind(**layout.__dict__)
        write_store(tmp_path / f"{size}.zarr", cut, written)
        store = open_store(tmp_path / f"{size}.zarr")
        everything = (slice(0, 6), slice(None), slice(None))
        bits = store.read("bits", *everything)
        assert [int(frame[:, 0, 0].astype(bool).sum()) for frame in bits] == [24, 16] * 3
        assert not bits[1, 16:].any()
        for name in ("blur", "sharp", "voxels"):
            expected = np.stack([getattr(frame, name) for frame in written])
            np.testing.assert_array_equal(store.read(name, *everything), expected)


def test_the_digest_covers_the_gain():
    digest = ContentDigest(LAYOUT)
    for frame in frames():
        digest.add(frame)
    found = {digest.hexdigest(gain) for gain in (None, 2.0, np.nextafter(2.0, 3.0).item())}
    assert len(found) == 3
