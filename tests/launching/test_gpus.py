from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading

import pytest

from vrtspike.errors import RunError
from vrtspike.launching.gpus import take_gpus, usable_gpus

GPUS = ["GPU-a", "GPU-b", "GPU-c"]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with three GPUs and no batch system; takes GPUs on it."""
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def take(wanted, installed=GPUS):
        return take_gpus(wanted, installed=installed, lock_folder=tmp_path, patience_s=0)

    return take


def test_visible_devices_may_be_indices_or_names():
    assert usable_gpus(GPUS, None) == GPUS
    assert usable_gpus(GPUS, "2,0") == ["GPU-c", "GPU-a"]
    assert usable_gpus(GPUS, "GPU-b") == ["GPU-b"]
    assert usable_gpus(GPUS, "") == []


def test_runs_get_different_devices_and_give_them_back(machine):
    with machine(1) as first, machine(2) as second:
        assert first.names == ("GPU-a",)
        assert second.names == ("GPU-b", "GPU-c")
        with pytest.raises(RunError, match="too few of the 3 GPUs are free for 1"), machine(1):
            pass
    with machine("auto") as third:
        assert third.names == tuple(GPUS)


def test_another_user_can_open_the_locks(machine, tmp_path):
    before = os.umask(0o077)
    try:
        with take_gpus(1, installed=GPUS, lock_folder=tmp_path / "locks", patience_s=0):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o1777
    (lock,) = (tmp_path / "locks").iterdir()
    assert stat.S_IMODE(lock.stat().st_mode) == 0o644
    assert lock.stat().st_size == 0


def test_auto_takes_what_is_free_or_the_cpu(machine):
    with machine(2), machine("auto") as rest:
        assert rest.names == ("GPU-c",)
    with machine("auto", installed=[]) as none:
        assert none.names == ()
    with machine(0) as cpu:
        assert cpu.names == ()


def test_more_than_exist_is_a_clear_error(machine):
    with pytest.raises(RunError, match=r"4 GPUs are asked for, but 3 can be used"), machine(4):
        pass
    with pytest.raises(RunError, match=r"1 GPUs are asked for, but 0"), machine(1, installed=[]):
        pass


def test_batch_systems_decide_themselves(machine, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    with machine(2) as first, machine("auto") as second:
        assert first.names == second.names == ("GPU-b", "GPU-c")
        assert first.locks == ()
    with machine(1) as fewer:
        assert fewer.names == ("GPU-b",)
    with pytest.raises(RunError, match="3 GPUs are asked for, but 2"), machine(3):
        pass


def test_a_child_that_inherits_the_lock_keeps_the_device(machine):
    with machine(3) as taken:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            pass_fds=taken.locks,
        )
    with pytest.raises(RunError, match="are free"), machine(1):
        pass
    child.communicate()
    with machine(1) as free:
        assert free.names == ("GPU-a",)


def test_a_run_waits_for_one_that_is_about_to_end(machine, tmp_path):
    with machine(3) as taken:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            pass_fds=taken.locks,
        )
    threading.Timer(0.2, child.stdin.close).start()
    with take_gpus(2, installed=GPUS, lock_folder=tmp_path, patience_s=60) as mine:
        assert mine.names == ("GPU-a", "GPU-b")
    child.wait()
