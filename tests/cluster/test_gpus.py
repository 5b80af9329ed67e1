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
from vrtspike.cluster.gpus import lock_folder, lock_gpu, take_device, take_gpus, usable_gpus
from vrtspike.monitoring.nvml import Gpu
from vrtspike.system.errors import RunError

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
        ("auto", GPUS, {"most": 2}, "GPU-a GPU-b"),
        # As many as divide the micro-batches of a step; training says what is wrong with a number.
        ("auto", FOUR, {"batches": 6}, "GPU-a GPU-b GPU-c"),
        (4, FOUR, {"batches": 6}, "GPU-a GPU-b GPU-c GPU-d"),
        # The emptiest first, and those of others not at all.
        (1, USED, {}, "GPU-b"),
        ("auto", USED, {}, "GPU-b GPU-a"),
        # One part of a divided GPU.
        ("auto", PARTS, {}, "MIG-a"),
    ],
)
def test_a_run_takes_free_gpus(machine, wanted, installed, options, expected):
    for _ in range(2):  # they are given back
        with machine(wanted, installed=installed, **options) as devices:
            assert " ".join(devices.names) == expected


@pytest.mark.parametrize(
    ("wanted", "installed", "timeout_s", "message"),
    [
        # Of those that there are not at all nobody waits to become free.
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
        # What a run does not use is left to others.
        with machine("auto", installed=FOUR) as rest:
            assert rest.names == ("GPU-d",)


def test_holders_of_a_gpu_are_named(machine):
    with machine(3), pytest.raises(RunError) as caught, machine(1):
        pass
    # The process that holds them is this one.
    for number in range(3):
        assert f"GPU {number} is held by process {os.getpid()} of " in str(caught.value)


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


def test_a_process_uses_the_gpu_that_it_has_locked(install_gpus, monkeypatch):
    """The driver is a file of answers; nothing is computed."""
    with take_device("auto") as device:
        assert device == torch.device("cpu")
    with pytest.raises(RunError, match="no GPU"):
        take_device("cuda").__enter__()
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


def test_all_users_have_one_folder_of_locks_and_can_open_them(tmp_path, monkeypatch):
    monkeypatch.delenv("VRTSPIKE_GPU_LOCKS", raising=False)
    assert lock_folder() == Path("/dev/shm/vrtspike-gpus")
    monkeypatch.setenv("VRTSPIKE_GPU_LOCKS", str(tmp_path / "locks"))
    before = os.umask(0o077)
    try:
        descriptor = lock_gpu(lock_folder() / "GPU-a.gpu")
        assert descriptor is not None
        os.close(descriptor)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o1777
    for lock in (tmp_path / "locks").iterdir():
        assert stat.S_IMODE(lock.stat().st_mode) == 0o666


def refused(path: Path, fault: str) -> None:
    with pytest.raises(RunError, match=rf"{re.escape(str(path))}: .*{fault}.*VRTSPIKE_GPU_LOCKS"):
        lock_gpu(path)


@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_no_file_is_overwritten_through_a_link(tmp_path, make):
    victim, folder = tmp_path / "thesis.txt", tmp_path / "locks"
    victim.write_text("process of four years")
    folder.mkdir()
    make(victim, folder / "GPU-a.gpu")
    refused(folder / "GPU-a.gpu", "no lock file of a GPU")
    assert victim.read_text() == "process of four years"
    (folder / "GPU-b.gpu").symlink_to(tmp_path / "new.txt")
    refused(folder / "GPU-b.gpu", "no lock file of a GPU")
    assert not (tmp_path / "new.txt").exists()


def test_only_lock_files_are_opened(tmp_path):
    (tmp_path / "GPU-a.gpu").write_text("notes")
    refused(tmp_path / "GPU-a.gpu", "another text than that of a lock")
    assert (tmp_path / "GPU-a.gpu").read_text() == "notes"
    os.mkfifo(tmp_path / "GPU-b.gpu")
    refused(tmp_path / "GPU-b.gpu", "no regular file")
    (tmp_path / "GPU-c.gpu").mkdir()
    refused(tmp_path / "GPU-c.gpu", "no lock file of a GPU")


def test_a_folder_of_locks_that_is_a_link_or_a_file_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    refused_folder = r"found a link, expected the folder of GPU locks; set VRTSPIKE_GPU_LOCKS"
    with pytest.raises(RunError, match=refused_folder):
        lock_gpu(tmp_path / "link/GPU-a.gpu")
    assert not list((tmp_path / "real").iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="found a file, expected the folder of GPU locks"):
        lock_gpu(tmp_path / "file/GPU-a.gpu")


def test_a_folder_of_another_user_is_taken_only_if_files_are_safe_there(tmp_path, monkeypatch):
    folder, fstat = tmp_path / "locks", os.fstat

    def status_of_other(descriptor: int) -> os.stat_result:
        status = [*fstat(descriptor)]
        status[stat.ST_UID] = 12345
        return os.stat_result(status)

    monkeypatch.setattr(os, "fstat", status_of_other)
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(RunError, match=r"another user \(ID 12345\), mode 777, expected .* 1777"):
        lock_gpu(folder / "GPU-a.gpu")
    folder.chmod(0o1777)
    descriptor = lock_gpu(folder / "GPU-a.gpu")
    assert descriptor is not None
    os.close(descriptor)


def test_a_holder_is_not_read_through_a_link(tmp_path, machine):
    descriptor = lock_gpu(tmp_path / "GPU-a.gpu")
    assert descriptor is not None
    assert gpus.lock_holder(tmp_path / "GPU-a.gpu").startswith(f"process {os.getpid()} of ")
    os.close(descriptor)
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "GPU-b.gpu").symlink_to("secret")
    assert gpus.lock_holder(tmp_path / "GPU-b.gpu") == "another run"
