"""Which GPUs a run takes: locks are real, only what the driver lists is given."""

from __future__ import annotations

import os
import re
import stat
import threading
from pathlib import Path

import pytest
import torch

from vrtspike.cluster import gpus
from vrtspike.cluster.gpus import (
    lock_folder,
    lock_gpu,
    require_gpus,
    take_device,
    take_gpus,
    usable_gpus,
)
from vrtspike.errors import RunError
from vrtspike.monitoring.nvml import Gpu, installed_gpus

GIB = 2**30


def gpu(uuid: str, index: int, free: float = 40, **more: bool) -> Gpu:
    return Gpu(uuid, index, "A100", 40 * GIB, int(free * GIB), **more)


GPUS = [gpu("GPU-a", 0), gpu("GPU-b", 1), gpu("GPU-c", 2)]
PARTS = [gpu("MIG-a", 0, is_part=True), gpu("MIG-b", 0, is_part=True)]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of three GPUs; takes GPUs on it, without patience unless it is given."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("VRTSPIKE_GPU_LOCKS", str(tmp_path))

    def take(wanted, installed=GPUS, timeout_s=0, **options):
        listed = installed if callable(installed) else lambda: installed
        monkeypatch.setattr(gpus, "installed_gpus", listed)
        return take_gpus(wanted, timeout_s=timeout_s, **options)

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
        (GPUS, "1,-1,0", ["GPU-b"]),
        (GPUS, "0,GPU-x,1", ["GPU-a"]),
        # One GPU by two names.
        (GPUS, "0,GPU-a,1", ["GPU-a", "GPU-b"]),
        # MIG instances.
        ([*PARTS, GPUS[1]], "MIG-b", ["MIG-b"]),
        ([*PARTS, GPUS[1]], "0,1", ["MIG-a", "GPU-b"]),
        # Assigned by a batch system, without the driver's library.
        ([], "1,GPU-q,MIG-r", ["1", "GPU-q", "MIG-r"]),
        ([], None, []),
        ([], "-1", []),
    ],
)
def test_gpus_that_cuda_visible_devices_selects(installed, visible, expected):
    assert [gpu.uuid for gpu in usable_gpus(installed, visible)] == expected


def test_runs_get_different_devices_and_give_them_back(machine):
    with machine(1) as first, machine(2) as second:
        assert first.names == ("GPU-a",)
        assert second.names == ("GPU-b", "GPU-c")
        with pytest.raises(RunError, match="too few of the 3 GPUs are free for 1"), machine(1):
            pass
    with machine("auto") as third:
        assert third.names == ("GPU-a", "GPU-b", "GPU-c")


def test_auto_takes_what_is_free_or_the_cpu(machine):
    with machine(2), machine("auto") as rest:
        assert rest.names == ("GPU-c",)
    with machine("auto", most=2) as some, machine("auto", most=2) as rest:
        assert (some.names, rest.names) == (("GPU-a", "GPU-b"), ("GPU-c",))
    with machine("auto", installed=[]) as none:
        assert none.names == ()
    with machine(0) as cpu:
        assert cpu.names == ()


def test_auto_takes_a_number_of_gpus_that_divides_the_micro_batches(machine):
    four = [*GPUS, gpu("GPU-d", 3)]
    with machine("auto", installed=four, batches=6) as some:
        assert some.names == ("GPU-a", "GPU-b", "GPU-c")
        # What it does not use is left to others.
        with machine("auto", installed=four, batches=6) as rest:
            assert rest.names == ("GPU-d",)
    with machine("auto", installed=four, batches=5) as one:
        assert one.names == ("GPU-a",)
    # A number that is asked for is taken; training says what is wrong with it.
    with machine(4, installed=four, batches=6) as asked:
        assert len(asked.names) == 4


def test_the_emptiest_gpus_come_first_and_those_of_others_not_at_all(machine):
    installed = [gpu("GPU-a", 0, 36), gpu("GPU-b", 1, 39.9), gpu("GPU-c", 2, 31.9)]
    with machine(1, installed=installed) as one:
        assert one.names == ("GPU-b",)
    with machine("auto", installed=installed) as free:
        assert free.names == ("GPU-b", "GPU-a")
    with pytest.raises(RunError, match=r"GPU 2: 8\.1 of 40\.0 GiB are in use"):
        machine(3, installed=installed).__enter__()


def test_holders_and_users_of_a_gpu_are_named(machine):
    with machine(3), pytest.raises(RunError) as caught, machine(1):
        pass
    # The process that holds them is this one.
    for number in range(3):
        assert f"GPU {number} is held by process {os.getpid()} of " in str(caught.value)
    installed = [gpu("GPU-a", 0, 10)]
    with pytest.raises(RunError, match="use it nevertheless: CUDA_VISIBLE_DEVICES=GPU-a"):
        machine(1, installed=installed).__enter__()


def test_more_gpus_than_exist_are_an_error_at_once(machine):
    with (
        pytest.raises(RunError, match=r"4 GPUs are asked for, but 3 can be used"),
        machine(4, timeout_s=None),
    ):
        pass
    with pytest.raises(RunError, match=r"1 GPUs are asked for, but 0"), machine(1, installed=[]):
        pass


def test_of_a_divided_gpu_a_run_takes_one_part(machine):
    with machine("auto", installed=PARTS) as one, machine(1, installed=PARTS) as other:
        assert (one.names, other.names) == (("MIG-a",), ("MIG-b",))
    with pytest.raises(RunError, match="divided GPU"), machine(2, installed=PARTS):
        pass
    # Whole ones go before parts where a run may have several.
    with machine("auto", installed=[*PARTS, *GPUS[1:]]) as whole:
        assert whole.names == ("GPU-b", "GPU-c")
    assert [gpu.uuid for gpu in require_gpus(2, [*PARTS, *GPUS[1:]])] == ["GPU-b", "GPU-c"]


def test_gpus_of_a_batch_system_are_used_without_locks(machine, monkeypatch):
    """It is another device in each job and node, and has been handed out."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with machine(1, installed=[]) as one, machine("auto", installed=[]) as both:
        assert (one.names, both.names) == (("0",), ("0", "1"))
        assert one.locks == both.locks == ()


def test_a_run_waits_and_says_for_what_until_a_device_is_free(machine, monkeypatch):
    said: list[str] = []
    freed = threading.Event()
    busy = [gpu("GPU-a", 0, 10)]

    def list_gpus():
        return [gpu("GPU-a", 0)] if freed.is_set() else busy

    def tell(text):
        said.append(text)
        freed.set()

    with machine(1, installed=list_gpus, timeout_s=None, show=tell) as mine:
        assert mine.names == ("GPU-a",)
    first, last = said
    assert re.match(r"waiting: too few of the 1 GPUs are free for 1: GPU 0: 30\.0 of 40\.0", first)
    assert last == "free now: GPU-a"
    # Who names a device means it.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a")
    with machine(1, installed=busy) as named:
        assert named.names == ("GPU-a",)


def test_two_runs_that_need_both_devices_come_one_after_the_other(machine):
    """Each would wait for ever for the half that the other holds."""
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


@pytest.mark.skipif(bool(installed_gpus()), reason="this machine has a GPU")
def test_without_a_gpu_auto_is_the_cpu_and_cuda_is_refused():
    with take_device("auto") as device:
        assert device == torch.device("cpu")
    with pytest.raises(RunError, match="no GPU"), take_device("cuda"):
        pass


@pytest.mark.gpu
@pytest.mark.skipif(not installed_gpus(), reason="needs a CUDA device")
def test_a_gpu_is_taken_where_there_is_one(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # restored after the test
    with take_device("auto") as device:
        assert device.type == "cuda"


def test_a_process_uses_the_gpu_that_it_has_locked(install_gpus, monkeypatch):
    """The driver is a file of answers; nothing is computed."""
    install_gpus(
        *({"uuid": f"GPU-{n}", "total": 40, "used": used} for n, used in (("a", 30), ("b", 0)))
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # restored after the test
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with take_device("auto", timeout_s=0) as device:
        assert device.type == "cuda"
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-b"
        # Another one here may only have what this one holds.
        with pytest.raises(RunError, match="are free"), take_device("cuda", timeout_s=0):
            pass


def test_all_users_have_one_folder_of_locks(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("VRTSPIKE_GPU_LOCKS", raising=False)
    assert lock_folder() == Path("/dev/shm/vrtspike-gpus")
    monkeypatch.setenv("VRTSPIKE_GPU_LOCKS", "/scratch/locks")
    assert lock_folder() == Path("/scratch/locks")


def test_another_user_can_open_the_locks(tmp_path):
    before = os.umask(0o077)
    try:
        descriptor = lock_gpu(tmp_path / "locks" / "GPU-a.gpu")
        assert descriptor is not None
        os.close(descriptor)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o1777
    for lock in (tmp_path / "locks").iterdir():
        assert stat.S_IMODE(lock.stat().st_mode) == 0o666
