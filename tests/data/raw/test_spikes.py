"""Spike files."""

from __future__ import annotations

import os

import numpy as np
import pytest

from vrtspike.data.raw.layouts.files import SensorArea
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.raw.spikes import (
    Sensor,
    count_steps,
    pack_spikes,
    read_spikes,
    step_bytes,
    write_spikes,
)
from vrtspike.io.images import read_gray, shrink
from vrtspike.system.errors import DataError


@pytest.mark.parametrize(("height", "width"), [(4, 16), (4, 12), (8, 3)])  # rows may share bytes
def test_bits_are_read_from_the_bottom_row_least_significant_first(tmp_path, height, width):
    random = np.random.default_rng(7)
    raw = random.integers(0, 256, 3 * step_bytes(height, width), dtype=np.uint8).tobytes()
    path = tmp_path / "a.dat"
    path.write_bytes(raw)
    assert count_steps(path, height, width) == 3
    spikes = read_spikes(path, height, width)
    flags = spikes.flags
    assert (spikes.dtype, flags.c_contiguous, flags.writeable) == (np.uint8, True, True)
    for t in range(3):
        frame = raw[t * step_bytes(height, width) :]
        for p in range(height * width):
            bit = frame[p // 8] >> (p % 8) & 1
            assert spikes[t, height - 1 - p // width, p % width] == bit
    write_spikes(path, spikes)
    assert path.read_bytes() == pack_spikes(spikes) == raw


@pytest.mark.parametrize(
    "area",
    [
        SensorArea(0, 0, 20, 24),
        SensorArea(2, 8, 9, 16),
        SensorArea(2, 8, 9, 13),
        SensorArea(2, 3, 9, 16),
    ],
)
@pytest.mark.parametrize("kind", ["dat", np.uint8, np.bool_, np.float32])
def test_a_part_of_a_file_is_read(tmp_path, area, kind):
    spikes = np.random.default_rng(3).integers(0, 2, (150, 20, 24), dtype=np.uint8)
    if kind == "dat":
        path = tmp_path / "a.dat"
        write_spikes(path, spikes)
    else:
        path = tmp_path / "a.npz"
        np.savez_compressed(path, other=np.zeros(3), spk=spikes.astype(kind))
    part = spikes[:, area.top : area.top + area.rows, area.left : area.left + area.columns]
    for start, count in ((0, 150), (7, 130), (149, 1), (5, 0)):
        packed = Sensor((20, 24), area).read(path, start, count)
        assert packed.columns == area.columns
        np.testing.assert_array_equal(
            packed.rows, PackedSpikes.pack(part[start : start + count]).rows
        )


@pytest.mark.parametrize(
    ("contents", "size", "reason"),
    [
        (b"", (8, 8), "empty"),
        (bytes(15), (8, 8), r"15 bytes are not a whole number of 8 x 8 .* 1 steps and 7 bytes"),
        (bytes(17), (8, 8), "1 bytes over"),
        (bytes(16), (3, 5), "whole bytes"),
        (bytes(16), (0, 8), "positive"),
        (bytes(16), (8, -8), "positive"),
        ({"other": np.zeros(3)}, (4, 4), "no .npz file with an array spk"),
        ({"spk": np.full((2, 4, 4), 2)}, (4, 4), "other than 0 and 1"),
        ({"spk": np.full((2, 4, 4), np.nan)}, (4, 4), "other than 0 and 1"),
        ({"spk": np.full((2, 4, 4), None)}, (4, 4), "spk holds object, not numbers"),
        ({"spk": np.zeros((2, 4, 4), "u1, u1")}, (4, 4), "not numbers"),
        ({"spk": np.zeros((2, 4, 4), np.complex64)}, (4, 4), "spk holds complex64, not numbers"),
        ({"spk": np.zeros((2, 4, 4), order="F")}, (4, 4), "save numpy.ascontiguousarray"),
        ({"spk": np.zeros((2, 4, 4))}, (2, 8), r"has the shape \(2, 4, 4\), \(T, 2, 8\) expected"),
    ],
)
def test_files_that_do_not_fit_the_sensor_are_refused(tmp_path, contents, size, reason):
    if isinstance(contents, bytes):
        path = tmp_path / "a.dat"
        path.write_bytes(contents)
    else:
        path = tmp_path / "a.npz"
        np.savez(path, **contents)
    with pytest.raises(DataError, match=reason):
        read_spikes(path, *size)


def test_missing_files_and_steps_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.dat: cannot be read"):
        read_spikes(tmp_path / "nothing.dat", 8, 8)
    write_spikes(tmp_path / "a.dat", np.zeros((3, 8, 8), np.uint8))
    for start, count in [(1, 3), (4, 0), (-1, 2), (2, -1)]:
        with pytest.raises(DataError, match="the file holds 3"):
            read_spikes(tmp_path / "a.dat", 8, 8, start=start, count=count)


def test_a_file_that_becomes_shorter_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.dat"
    write_spikes(path, np.zeros((3, 8, 8), np.uint8))

    def count_and_cut(*arguments):
        steps = count_steps(*arguments)
        os.truncate(path, 20)
        return steps

    monkeypatch.setattr("vrtspike.data.raw.spikes.count_steps", count_and_cut)
    with pytest.raises(DataError, match=r"a\.dat: found 12 bytes from step 1 on, expected 16; "):
        read_spikes(path, 8, 8, start=1)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((1, 8, 8), 2, np.uint8), "other than 0 and 1"),
        (np.zeros((8, 8)), r"shape \(8, 8\): \(T, H, W\)"),
        (np.zeros((0, 8, 8)), "T >= 1 expected"),
        (np.zeros((1, 3, 3)), "3 x 3"),
    ],
)
def test_other_arrays_are_not_written(tmp_path, array, message):
    with pytest.raises(DataError, match=message):
        write_spikes(tmp_path / "a.dat", array)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.shared
def test_real_file_shows_the_real_frame(shared):
    folder = shared / "samples" / "spk_gopro"
    spikes = read_spikes(folder / "000226.dat", 360, 640)
    assert spikes.shape == (88, 360, 640)
    frame = shrink(read_gray(folder / "000226.png"), 360, 640)
    mean = spikes[28:53].mean(axis=0)
    assert np.corrcoef(mean.ravel(), frame.ravel())[0, 1] > 0.96
    assert np.corrcoef(mean[::-1].ravel(), frame.ravel())[0, 1] < 0.3
    # theta = 2: the spike rate is half the grey value.
    assert mean.mean() == pytest.approx(0.499 * frame.mean() / 255, rel=0.02)
