from __future__ import annotations

import os
from pathlib import Path

import pytest

from vrtspike.training.devices import Devices
from vrtspike.training.launch import STATUS_FILE, report_status, training_environment


@pytest.mark.parametrize(("given", "ranks", "expected"), [("1", 1, "1"), ("1", 4, "1")])
def test_threads_are_divided_among_the_processes(monkeypatch, given, ranks, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    found = training_environment(Devices(), ranks, Path("status"))
    assert found["OMP_NUM_THREADS"] == expected


def test_threads_never_exceed_the_cpus(monkeypatch):
    cpus = len(os.sched_getaffinity(0))
    monkeypatch.setenv("OMP_NUM_THREADS", "1024")
    assert training_environment(Devices(), 1, Path("s"))["OMP_NUM_THREADS"] == str(cpus)
    monkeypatch.delenv("OMP_NUM_THREADS")
    halved = training_environment(Devices(), 2, Path("s"))["OMP_NUM_THREADS"]
    assert halved == str(max(1, cpus // 2))


def test_devices_reach_the_processes():
    found = training_environment(Devices(("GPU-a", "GPU-b")), 2, Path("s"))
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert training_environment(Devices(), 1, Path("s"))["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    ("status", "world", "expected"), [(0, 2, 0), (75, 2, 0), (2, 1, 0), (2, 2, 2)]
)
def test_status_goes_to_the_launcher(tmp_path, monkeypatch, status, world, expected):
    monkeypatch.setenv("WORLD_SIZE", str(world))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv(STATUS_FILE, raising=False)
    assert report_status(status) == status
    path = tmp_path / "status"
    monkeypatch.setenv(STATUS_FILE, str(path))
    assert report_status(status) == expected
    assert not path.exists()
    monkeypatch.setenv("RANK", "0")
    report_status(status)
    assert path.read_text() == str(status)
