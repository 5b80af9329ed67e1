"""The lock files of GPUs, with real processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vrtspike.errors import RunError
from vrtspike.launching.gpu_locks import (
    choosing,
    claim,
    describe_holder,
    held_locks,
    join_locks,
    lock_folder,
    lock_path,
)
from vrtspike.locks import lock_file
from vrtspike.monitoring.nvml import Gpu

JOIN = """
import sys
from vrtspike.launching.gpu_locks import join_locks
join_locks()
print("joined", flush=True)
sys.stdin.read()
"""


def is_free(path: Path) -> bool:
    descriptor = claim(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


def test_the_folder_is_one_for_all_users(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert lock_folder({"TMPDIR": str(tmp_path)}) == Path("/dev/shm/vrtspike-gpus")
    assert lock_folder({"VRTSPIKE_GPU_LOCKS": "/scratch/locks"}) == Path("/scratch/locks")


def test_a_device_has_one_file_whatever_its_name(tmp_path):
    known = Gpu("GPU-a", total=1)
    assert lock_path(known, tmp_path, {"SLURM_JOB_ID": "7"}) == tmp_path / "GPU-a.lock"
    old = Gpu("MIG-GPU-a/1/0")
    assert lock_path(old, tmp_path, {}) == tmp_path / "MIG-GPU-a-1-0.lock"
    job = {"PBS_JOBID": "7.host", "HOSTNAME": "n1"}
    assert lock_path(Gpu("0"), tmp_path, job) == tmp_path / "7.host-n1-0.lock"


def test_another_user_can_open_the_locks(tmp_path):
    before = os.umask(0o077)
    try:
        with choosing(tmp_path / "locks") as other:
            assert other is None
            assert is_free(tmp_path / "locks" / "GPU-a.lock")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o1777
    for lock in (tmp_path / "locks").iterdir():
        assert stat.S_IMODE(lock.stat().st_mode) == 0o644
        assert lock.stat().st_size == 0


def test_who_asks_again_and_again_opens_no_more_files(tmp_path):
    path = tmp_path / "GPU-a.lock"
    descriptor = claim(path)
    assert descriptor is not None
    before = len([*Path("/proc/self/fd").iterdir()])
    assert [claim(path) for _ in range(3)] == [None] * 3
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    os.close(descriptor)


def test_one_chooses_at_a_time(tmp_path):
    with choosing(tmp_path) as first, choosing(tmp_path) as second:
        assert first is None
        assert second is not None
        assert f"process {os.getpid()} of" in second
    with choosing(tmp_path) as third:
        assert third is None


def test_a_holder_that_nobody_can_name_is_another_run(tmp_path):
    (tmp_path / "GPU-a.lock").touch()
    assert describe_holder(tmp_path / "GPU-a.lock") == "another run"


def test_a_process_of_the_run_keeps_the_device_after_its_launcher(tmp_path):
    """A killed launcher's processes still save, and still use the device."""
    path = tmp_path / "GPU-a.lock"
    descriptor = claim(path)
    assert descriptor is not None
    process = subprocess.Popen(
        [sys.executable, "-c", JOIN],
        env={**os.environ, **held_locks([path])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "joined\n"
    assert not is_free(path)
    os.close(descriptor)
    assert not is_free(path)
    assert f"process {process.pid} of" in describe_holder(path)
    process.communicate()
    assert is_free(path)


def test_without_devices_nothing_is_held(monkeypatch):
    monkeypatch.delenv("VRTSPIKE_HELD_LOCKS", raising=False)
    assert held_locks([]) == {}
    assert join_locks() == []


def test_a_device_that_another_run_took_meanwhile_is_not_used(tmp_path, monkeypatch):
    path = tmp_path / "GPU-a.lock"
    monkeypatch.setenv("VRTSPIKE_HELD_LOCKS", str(path))
    with path.open("w") as stream:
        assert lock_file(stream.fileno(), path)
        with pytest.raises(RunError, match="another run has taken"):
            join_locks()


def test_a_training_program_holds_the_locks_of_its_run(tmp_path, repository):
    path = tmp_path / "GPU-a.lock"
    with path.open("w") as stream:
        assert lock_file(stream.fileno(), path)
        done = subprocess.run(
            [sys.executable, "scripts/train.py", "--run-dir", str(tmp_path / "run")],
            cwd=repository,
            env={**os.environ, **held_locks([path])},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2, done.stderr
    assert "another run has taken this run's GPU" in done.stderr
