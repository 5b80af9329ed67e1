"""Selection of GPUs with real locks; only the list of the driver is simulated."""

from __future__ import annotations

import contextlib
import os
import re
import threading

import pytest
import torch

from vrtspike.launching import gpus
from vrtspike.launching.gpus import acquire_device, acquire_gpus, usable_gpus
from vrtspike.monitoring.nvml import Gpu
from vrtspike.system.errors import RunError

GIB = 2**30


def gpu(uuid: str, index: int, free: float = 40, **more: bool) -> Gpu:
    return Gpu(uuid, index, "A100", 40 * GIB, int(free * GIB), **more)


GPUS = [gpu("GPU-a", 0), gpu("GPU-b", 1), gpu("GPU-c", 2)]
PARTS = [gpu("MIG-a", 0, is_mig_instance=True), gpu("MIG-b", 0, is_mig_instance=True)]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Take GPUs on a machine with three of them, by default without waiting."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("VRTSPIKE_GPU_LOCKS", str(tmp_path))

    def take(wanted, installed=GPUS, timeout_s=0, **options):
        listed = installed if callable(installed) else lambda: installed
        monkeypatch.setattr(gpus, "installed_gpus", listed)
        return acquire_gpus(wanted, timeout_s=timeout_s, **options)

    return take


@pytest.mark.parametrize(
    ("installed", "visible", "expected"),
    [
        (GPUS, None, ["GPU-a", "GPU-b", "GPU-c"]),
        (GPUS, "2,0", ["GPU-c", "GPU-a"]),
        (GPUS, "GPU-b", ["GPU-b"]),
        (GPUS, " GPU-b , 0", ["GPU-b", "GPU-a"]),
        (GPUS, "", []),
        # As in CUDA, an invalid name ends the list.
        (GPUS, "0,7,1", ["GPU-a"]),
        # One GPU by two names.
        (GPUS, "0,GPU-a,1", ["GPU-a", "GPU-b"]),
        # MIG instances.
        ([*PARTS, GPUS[1]], "MIG-b", ["MIG-b"]),
        ([*PARTS, GPUS[1]], "0,1", ["MIG-a", "GPU-b"]),
        # Assigned by a batch system, without the driver's library.
        ([], "1,GPU-q,MIG-r", ["1", "GPU-q", "MIG-r"]),
    ],
)
def test_gpus_that_cuda_visible_devices_selects(monkeypatch, installed, visible, expected):
    monkeypatch.setattr(gpus, "installed_gpus", lambda: installed)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.uuid for gpu in usable_gpus()] == expected


FOUR = [*GPUS, gpu("GPU-d", 3)]
USED = [gpu("GPU-a", 0, 36), gpu("GPU-b", 1, 39.9), gpu("GPU-c", 2, 31.9)]


@pytest.mark.parametrize(
    ("wanted", "installed", "options", "expected"),
    [
        (2, GPUS, {}, "GPU-a GPU-b"),
        ("auto", GPUS, {}, "GPU-a GPU-b GPU-c"),
        ("auto", GPUS, {"max_count": 2}, "GPU-a GPU-b"),
        # The largest number that divides the micro-batches of a step; an explicit number is not
        # checked here, training reports it.
        ("auto", FOUR, {"batches": 6}, "GPU-a GPU-b GPU-c"),
        (4, FOUR, {"batches": 6}, "GPU-a GPU-b GPU-c GPU-d"),
        # The emptiest first; GPUs that others use are left out.
        (1, USED, {}, "GPU-b"),
        ("auto", USED, {}, "GPU-b GPU-a"),
        # One part of a divided GPU.
        ("auto", PARTS, {}, "MIG-a"),
    ],
)
def test_a_run_takes_free_gpus(machine, wanted, installed, options, expected):
    for _ in range(2):  # the first take releases its locks
        with machine(wanted, installed=installed, **options) as devices:
            assert " ".join(devices.names) == expected


@pytest.mark.parametrize(
    ("wanted", "installed", "timeout_s", "message"),
    [
        # No waiting for GPUs that do not exist.
        (4, GPUS, None, "4 GPUs are asked for, but 3 can be used"),
        (1, [], None, "1 GPUs are asked for, but 0"),
        (3, USED, 0, r"GPU 2: 8\.1 of 40\.0 GiB are in use \(use it nevertheless: CUDA\S*=GPU-c"),
    ],
)
def test_too_few_gpus_are_an_error_with_the_reason(machine, wanted, installed, timeout_s, message):
    with pytest.raises(RunError, match=message):
        machine(wanted, installed=installed, timeout_s=timeout_s).__enter__()


def test_runs_get_different_gpus(machine):
    with machine(1, installed=FOUR) as first, machine("auto", installed=FOUR, batches=4) as second:
        assert (first.names, second.names) == (("GPU-a",), ("GPU-b", "GPU-c"))
        # A run leaves the GPUs that it cannot use to others.
        with machine("auto", installed=FOUR) as rest:
            assert rest.names == ("GPU-d",)


def test_holders_of_a_gpu_are_named(machine):
    with machine(3), pytest.raises(RunError) as caught, machine(1):
        pass
    # The process that holds them is this one.
    for number in range(3):
        assert f"GPU {number} is held by process {os.getpid()} of " in str(caught.value)


def test_gpus_of_a_batch_system_are_used_without_locks(machine, monkeypatch):
    """The name is another device in each job and node, and the batch system has assigned it."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with machine(1, installed=[]) as one, machine("auto", installed=[]) as both:
        assert (one.names, both.names) == (("0",), ("0", "1"))
        assert one.locks == both.locks == ()


def test_a_run_waits_with_a_message_until_a_device_is_free(machine, monkeypatch):
    messages: list[str] = []
    freed = threading.Event()
    busy = [gpu("GPU-a", 0, 10)]

    def list_gpus():
        return [gpu("GPU-a", 0)] if freed.is_set() else busy

    def record(text):
        messages.append(text)
        freed.set()

    with machine(1, installed=list_gpus, timeout_s=None, show=record) as mine:
        assert mine.names == ("GPU-a",)
    first, last = messages
    assert re.match(r"waiting: too few of the 1 GPUs are free for 1: GPU 0: 30\.0 of 40\.0", first)
    assert last == "free now: GPU-a"
    # A device that the user names is used even if it is busy.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a")
    with machine(1, installed=busy) as named:
        assert named.names == ("GPU-a",)


def test_runs_that_need_both_devices_run_one_after_the_other(machine):
    """Otherwise each would wait for ever for the device that the other holds."""
    order: list[str] = []

    def run(name):
        with machine(2, installed=GPUS[:2], timeout_s=None, show=lambda text: None):
            order.extend([name, name])

    threads = [threading.Thread(target=run, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=800)
    assert sorted(order[::2]) == ["x", "y", "z"]
    assert order[::2] == order[1::2]


def test_a_process_uses_the_gpu_that_it_has_locked(install_gpus, monkeypatch):
    """The driver is simulated; nothing is computed."""
    with acquire_device("auto") as device:
        assert device == torch.device("cpu")
    with pytest.raises(RunError, match="no GPU"):
        acquire_device("cuda").__enter__()
    install_gpus(
        *({"uuid": f"GPU-{n}", "total": 40, "used": used} for n, used in (("a", 30), ("b", 0)))
    )
    with acquire_device("auto", timeout_s=0) as device:
        assert device.type == "cuda"
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-b"
        # Another run on this machine needs the GPU that this one holds.
        with pytest.raises(RunError, match="are free"), acquire_device("cuda", timeout_s=0):
            pass
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    with contextlib.suppress(KeyError), acquire_device("auto", timeout_s=0):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-b"
        raise KeyError  # as an error in the body
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1,0"
