"""GPUs, disks and speed of this machine, and GPUs by name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from vrtspike.deblurring.advice import hardware
from vrtspike.deblurring.advice.hardware import (
    MachineGpus,
    find_gpus,
    measure_bandwidth,
    measure_speed,
    named_gpu,
    speed_of_gpu,
)
from vrtspike.system.errors import RunError

GPUS = [
    {"uuid": f"GPU-{n}", "total": total, "used": 1, "name": f"NVIDIA A100 {n}"}
    for n, total in enumerate((80, 40, 24))
]


@pytest.mark.parametrize(
    ("gpus", "visible", "expected"),
    [
        (GPUS, None, MachineGpus("NVIDIA A100 0", 3, 24.0)),
        (GPUS, "1,0", MachineGpus("NVIDIA A100 1", 2, 40.0)),
        (GPUS, "", None),
        (None, None, None),
        # Names that a batch system gives have no size.
        (None, "0", None),
    ],
)
def test_the_smallest_of_the_gpus_that_can_be_used_counts(
    install_gpus, monkeypatch, gpus, visible, expected
):
    if gpus is not None:
        install_gpus(*gpus)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert find_gpus() == expected


def test_gpus_are_known_by_name():
    assert named_gpu("a6000", 2) == MachineGpus("A6000", 2, 48)
    with pytest.raises(RunError, match=r"--gpu T4: expected .*A6000"):
        named_gpu("T4", 1)


def test_cpus_have_the_speed_of_a_product(monkeypatch):
    peaks = {(torch.device("cpu"), torch.float32): 0.15e12}
    monkeypatch.setattr(hardware, "measure_peak", lambda *key: peaks[key])
    speed, text = measure_speed(None)
    # A training step reaches 0.48 of it.
    assert speed.seconds(operations=10**6, moved_tb=5.0, tflop=2.0) == pytest.approx(2 / 0.072)
    assert text == "72 GFLOP/s in a training step, by a product now"


def test_a_gpu_of_this_machine_is_measured(install_gpus, monkeypatch):
    """Not taken from the data sheet of the H100 SXM, which gives 3.35 TB/s."""
    install_gpus(GPUS[0] | {"name": "NVIDIA H100 PCIe"})
    gpus = find_gpus()
    monkeypatch.setattr(hardware, "measure_bandwidth", lambda device: 0.6)
    monkeypatch.setattr(hardware, "measure_peak", lambda device, dtype: 400e12)
    speed, text = measure_speed(gpus)
    assert speed == speed_of_gpu(0.6, 400.0)
    assert text == (
        "15.0 us an operation and 0.27 TB/s in a training step, by 0.60 TB/s of memory of a copy "
        "now"
    )

    def broken(*_: object) -> float:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr(hardware, "measure_bandwidth", broken)
    with pytest.raises(RunError, match=r"PCIe does not compute \(no kernel image\); see vrtspike"):
        measure_speed(gpus)


def test_the_bytes_of_a_copy_are_those_read_and_written(monkeypatch):
    clock = iter([0.0, 2.0, 2.0, 3.0, 3.0, 5.0, 5.0, 7.0, 7.0, 9.0])
    moved = SimpleNamespace(perf_counter=lambda: next(clock))
    monkeypatch.setattr("vrtspike.monitoring.timing.time", moved)
    assert measure_bandwidth(torch.device("cpu")) == pytest.approx(2 * 2**28 / 1e12)
