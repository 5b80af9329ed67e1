from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from vrtspike.deblurring.data.raw.npz import npz_blocks, npz_shape
from vrtspike.errors import DataError


def read(path, start, count, size=4):
    parts = list(npz_blocks(path, start, count, size))
    assert all(len(part) == size for part in parts[:-1])
    assert all(part.dtype == np.uint8 for part in parts)
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def spikes():
    return np.random.default_rng(0).integers(0, 2, (30, 20, 24), dtype=np.uint8)


@pytest.mark.parametrize("kind", [np.uint8, np.bool_, np.float32, np.int64])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_part_of_a_file(tmp_path, spikes, kind, save, order):
    path = tmp_path / "a.npz"
    save(path, other=np.zeros(3), spk=np.asarray(spikes.astype(kind), order=order))
    assert npz_shape(path) == spikes.shape
    for start, count in ((0, 30), (7, 9), (29, 1)):
        np.testing.assert_array_equal(read(path, start, count), spikes[start : start + count])
    assert list(npz_blocks(path, 5, 0, 4)) == []


def test_only_a_block_of_the_steps_asked_for_is_held(tmp_path):
    path = tmp_path / "whole.npz"
    np.savez_compressed(path, spk=np.zeros((16_000, 50, 80), np.uint8))
    for start, count in ((15_000, 50), (0, 16_000)):
        tracemalloc.start()
        for block in npz_blocks(path, start, count, 50):
            assert not block.any()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 36_000_000  # of 64,000,000


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_file_is_an_error_wherever_the_damage_is(tmp_path, spikes, save):
    path = tmp_path / "a.npz"
    save(path, spk=spikes)
    whole, random = path.read_bytes(), np.random.default_rng(1)
    refused = 0
    for place in [*range(0, 250), *random.integers(250, len(whole), 150)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        try:
            found = read(path, 0, npz_shape(path)[0])
        except DataError:
            refused += 1
            continue
        np.testing.assert_array_equal(found, spikes)
    assert refused > 200


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"other": np.zeros(3)}, "holds no array 'spk'"),
        ({"spk": np.full((2, 4, 4), 2)}, "other than 0 and 1"),
        ({"spk": np.full((2, 4, 4), np.nan)}, "other than 0 and 1"),
        ({"spk": np.full((2, 4, 4), None)}, "spk holds object, not numbers"),
        ({"spk": np.zeros((2, 4, 4), "u1, u1")}, "not numbers"),
        ({"spk": np.zeros((2, 4, 4), np.complex64)}, "spk holds complex64, not numbers"),
    ],
)
def test_what_is_no_spike_array(tmp_path, arrays, reason):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=reason):
        read(path, 0, 2)
