"""Interpretation of the driver's answers; the driver is a file of answers (tests/fake_driver)."""

from __future__ import annotations

import os

import pytest

from vrtspike.monitoring.nvml import Gpu, driver_version, gpu_memory, installed_gpus

GIB = 2**30


def test_without_a_driver_there_is_nothing(install_gpus):
    assert installed_gpus() == []
    assert driver_version() == ""
    assert gpu_memory() == {}


def test_gpus_with_their_memory(install_gpus):
    install_gpus(
        {"uuid": "GPU-a", "total": 40, "used": 1.5, "name": "A"},
        {"uuid": "GPU-b", "total": 24, "used": 0},
    )
    first, second = installed_gpus()
    assert first == Gpu("GPU-a", 0, "A", 40 * GIB, int(38.5 * GIB))
    assert (second.uuid, second.index, second.free) == ("GPU-b", 1, 24 * GIB)
    assert driver_version() == "570.1"


def test_a_gpu_that_does_not_answer_is_left_out_with_a_warning(install_gpus):
    install_gpus({"lost": True}, {"uuid": "GPU-b", "total": 24, "used": 0, "name": "B"})
    with pytest.warns(UserWarning, match=r"GPU 0 is left out: .*GPU is lost; see nvidia-smi"):
        assert installed_gpus() == [Gpu("GPU-b", 1, "B", 24 * GIB, 24 * GIB)]


def test_a_gpu_that_shares_the_memory_of_the_machine_has_no_size(install_gpus):
    install_gpus({"uuid": "GPU-a", "name": "GB10"})
    assert installed_gpus() == [Gpu("GPU-a", 0, "GB10")]


def test_a_divided_gpu_is_listed_by_its_instances(install_gpus):
    parts = [{"uuid": f"MIG-{n}", "total": 10, "used": n} for n in (1, 2)]
    install_gpus(
        {"uuid": "GPU-a", "total": 40, "used": 3, "parts": parts},
        {"uuid": "GPU-b", "total": 40, "used": 0, "parts": parts, "divided": False},
    )
    result = [
        (gpu.uuid, gpu.index, gpu.free // GIB, gpu.is_mig_instance) for gpu in installed_gpus()
    ]
    assert result == [("MIG-1", 0, 9, True), ("MIG-2", 0, 8, True), ("GPU-b", 1, 40, False)]


def test_processes_and_their_memory_on_all_gpus(install_gpus):
    mine = os.getpid()
    part = {"uuid": "MIG-1", "total": 10, "used": 2, "processes": [77]}
    install_gpus(
        {"uuid": "GPU-a", "total": 40, "used": 1, "processes": [mine, 77]},
        {"uuid": "GPU-b", "total": 40, "used": 3, "parts": [part]},
    )
    assert gpu_memory() == {mine: 1024.0, 77: 3072.0}
