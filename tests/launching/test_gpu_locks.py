"""Lock files of GPUs, on real files."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from vrtspike.launching.gpu_locks import lock_folder, lock_gpu, lock_holder
from vrtspike.system.errors import RunError


def test_all_users_share_one_folder_and_can_open_its_locks(tmp_path, monkeypatch):
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


def assert_refused(path: Path, fault: str) -> None:
    with pytest.raises(RunError, match=rf"{re.escape(str(path))}: .*{fault}.*VRTSPIKE_GPU_LOCKS"):
        lock_gpu(path)


@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_no_file_is_overwritten_through_a_link(tmp_path, make):
    victim = tmp_path / "thesis.txt"
    folder = tmp_path / "locks"
    victim.write_text("process of four years")
    folder.mkdir()
    make(victim, folder / "GPU-a.gpu")
    assert_refused(folder / "GPU-a.gpu", "no lock file of a GPU")
    assert victim.read_text() == "process of four years"
    (folder / "GPU-b.gpu").symlink_to(tmp_path / "new.txt")
    assert_refused(folder / "GPU-b.gpu", "no lock file of a GPU")
    assert not (tmp_path / "new.txt").exists()


def test_only_lock_files_are_opened(tmp_path):
    (tmp_path / "GPU-a.gpu").write_text("notes")
    assert_refused(tmp_path / "GPU-a.gpu", "another text than that of a lock")
    assert (tmp_path / "GPU-a.gpu").read_text() == "notes"
    os.mkfifo(tmp_path / "GPU-b.gpu")
    assert_refused(tmp_path / "GPU-b.gpu", "no regular file")
    (tmp_path / "GPU-c.gpu").mkdir()
    assert_refused(tmp_path / "GPU-c.gpu", "no lock file of a GPU")


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


def test_a_folder_of_another_user_is_used_only_if_files_are_safe_there(tmp_path, monkeypatch):
    folder = tmp_path / "locks"
    fstat = os.fstat

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


def test_a_holder_is_not_read_through_a_link(tmp_path):
    descriptor = lock_gpu(tmp_path / "GPU-a.gpu")
    assert descriptor is not None
    assert lock_holder(tmp_path / "GPU-a.gpu").startswith(f"process {os.getpid()} of ")
    os.close(descriptor)
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "GPU-b.gpu").symlink_to("secret")
    assert lock_holder(tmp_path / "GPU-b.gpu") == "another run"
