"""Spikes in ``.npz`` files: one read again, and damaged ones."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from vrtspike.data.raw.spikes import npz_sensor, npz_steps, read_spikes
from vrtspike.system.errors import DataError


def test_the_latest_file_is_unpacked_once_until_it_changes(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, spk=np.zeros((3, 4, 8), np.uint8))
    frames = npz_steps(path)
    assert npz_steps(path) is frames
    np.savez(path, spk=np.ones((5, 4, 8), np.uint8))
    np.testing.assert_array_equal(npz_steps(path), np.full((5, 4), 255))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damage_anywhere_in_a_file_is_an_error(tmp_path, save):
    path = tmp_path / "a.npz"
    spikes = np.random.default_rng(0).integers(0, 2, (30, 20, 24), dtype=np.uint8)
    save(path, spk=spikes)
    contents = path.read_bytes()
    random = np.random.default_rng(1)
    refused = 0
    for place in [*range(0, 250), *random.integers(250, len(contents), 150)]:
        damaged = bytearray(contents)
        damaged[place] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        try:
            values = read_spikes(path, *npz_sensor(path))
        except DataError:
            refused += 1
            continue
        np.testing.assert_array_equal(values, spikes)
    assert refused > 200


@pytest.mark.parametrize(
    ("change", "reason"),
    [(-20, "cannot reshape"), (-16, "cannot reshape"), (1, "more than"), (16, "more than")],
)
def test_an_array_of_another_length_than_its_header_is_refused(tmp_path, change, reason):
    stream = io.BytesIO()
    np.save(stream, np.zeros((2, 4, 4), np.uint8))
    contents = (stream.getvalue() + bytes(16))[: change - 16 or None]
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("spk.npy", contents)
    with pytest.raises(DataError, match=f"a.npz: no .npz .*{reason}"):
        read_spikes(tmp_path / "a.npz", 4, 4)


def test_a_long_header_is_read(tmp_path):
    path = tmp_path / "a.npz"
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 4), }".ljust(20_000)
    contents = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("spk.npy", contents + bytes(32))
    assert read_spikes(path, 4, 4).shape == (2, 4, 4)
