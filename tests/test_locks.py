"""Locks on files, and file systems that have none."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import struct
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from vrtspike.deblurring.data.bundles import make_share
from vrtspike.deblurring.data.gate.ingest_share import Ingestion
from vrtspike.errors import RunError
from vrtspike.launching.gpus import take_gpus
from vrtspike.launching.status import status_file
from vrtspike.locks import holders, lock_file
from vrtspike.monitoring.nvml import Gpu
from vrtspike.runs.folder import hold_run
from vrtspike.watching.turns import Turns

FLOCK = {"x86_64": 73, "aarch64": 32}.get(os.uname().machine)
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38


def refuse_flock(number: int) -> None:
    """Let the kernel answer each ``flock`` of this process with an error."""
    steps = ((LOAD, 0, 0, 0), (EQUAL, 0, 1, FLOCK), (RETURN, 0, 0, REFUSE | number))
    program = b"".join(struct.pack("HBBI", *step) for step in (*steps, (RETURN, 0, 0, ALLOW)))
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HL", len(program) // 8, ctypes.addressof(code))
    kernel = ctypes.CDLL(None, use_errno=True)
    for call in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, FILTER, header, 0, 0)):
        assert kernel.prctl(*call) == 0, os.strerror(ctypes.get_errno())


def ways_to_lock(folder: Path) -> list[AbstractContextManager[object]]:
    gpu = Gpu("GPU-a", total=1, free=1)
    gpus = take_gpus(1, look=lambda: [gpu], folder=folder / "gpus", patience_s=0)
    return [hold_run(folder / "run", patience_s=0), status_file(folder), gpus]


def go_on_without(folder: Path) -> None:
    """What does no harm without locks goes on; prints what it says."""
    refuse_flock(errno.ENOLCK)
    make_share(
        Ingestion("", folder, "blur", "auto"), [], folder, folder / "shares/0-of-1.json", 1, print
    )
    assert not Turns(folder / "turns").take(["a"], print)


def be_refused(folder: Path) -> None:
    """Try each way to lock with each error; prints a line of JSON for each."""
    for number in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EIO):
        refuse_flock(number)
        for way in ways_to_lock(folder):
            try:
                with way:
                    print(json.dumps([number, "locked", ""]))
            except (RunError, OSError) as error:
                print(json.dumps([number, type(error).__name__, str(error)]))


@pytest.mark.skipif(FLOCK is None, reason="the number of the system call is not known here")
def test_a_file_system_without_locks_is_named_with_a_way_out(tmp_path):
    left_out = {"CUDA_VISIBLE_DEVICES"}
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)],
        env={name: value for name, value in os.environ.items() if name not in left_out},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    advice = ["RUNS in config", "RUNS in config", "set VRTSPIKE_GPU_LOCKS"]
    for (number, kind, message), way_out in zip(answers[:9], 3 * advice, strict=True):
        assert kind == "RunError", message
        assert os.strerror(number) in message
        assert str(tmp_path) in message
        assert "option flock" in message
        assert way_out in message
    assert [answer[:2] for answer in answers[9:]] == [[errno.EIO, "OSError"]] * 3
    assert not list(tmp_path.glob(".status-*"))


@pytest.mark.skipif(FLOCK is None, reason="the number of the system call is not known here")
def test_shares_and_plans_go_on_without_locks(tmp_path):
    command = [sys.executable, __file__, str(tmp_path), "go on"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lock = tmp_path / "shares/0-of-1.lock"
    assert done.stdout.splitlines() == [
        f"{lock}: no locks on this file system; going on without",
        "[0/0] share 0-of-1: 0 sequences, 0 of them to do",
    ]


LOCKS = ("run/lock", ".status-left", "gpus/GPU-a.lock")
"""Files that :func:`ways_to_lock` uses, in its order."""


@pytest.mark.parametrize("lock", LOCKS)
def test_a_folder_in_the_place_of_a_lock_is_named(tmp_path, monkeypatch, lock):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / lock).mkdir(parents=True)
    message = rf"{re.escape(str(tmp_path / lock))}: found a folder, expected a lock file"
    way = ways_to_lock(tmp_path)[LOCKS.index(lock)]
    with pytest.raises(RunError, match=message), way:
        pass
    (tmp_path / lock).rmdir()
    for way in ways_to_lock(tmp_path):
        with way:
            pass


def test_a_pipe_in_the_place_of_a_lock_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(RunError, match="found something that is no file"), hold_run(tmp_path):
        pass


def test_a_lock_keeps_others_away_until_it_is_closed(tmp_path):
    path = tmp_path / "lock"
    with path.open("w") as one, path.open("r") as other:
        assert lock_file(one.fileno(), path)
        assert not lock_file(other.fileno(), path)
        one.close()
        assert lock_file(other.fileno(), path, wait=True)


def test_who_waits_gets_the_lock_when_the_other_ends(tmp_path):
    path = tmp_path / "lock"
    hold = (
        "import fcntl, sys; stream = open(sys.argv[1]); fcntl.flock(stream, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    path.touch()
    command = [sys.executable, "-c", hold, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as holder, path.open() as mine:
        assert holder.stdout.readline() == "held\n"
        assert not lock_file(mine.fileno(), path)
        threading.Timer(0.2, holder.stdin.close).start()
        assert lock_file(mine.fileno(), path, wait=True)


def test_who_shares_a_lock_keeps_away_who_wants_it_alone(tmp_path):
    path = tmp_path / "lock"
    with path.open("w") as one, path.open("r") as other, path.open("r") as third:
        assert lock_file(one.fileno(), path, shared=True)
        assert lock_file(other.fileno(), path, shared=True)
        assert not lock_file(third.fileno(), path)
        one.close()
        assert not lock_file(third.fileno(), path)
        other.close()
        assert lock_file(third.fileno(), path)
        assert not lock_file(os.open(path, os.O_RDONLY), path, shared=True)


def test_holders_are_named_while_they_hold(tmp_path):
    path = tmp_path / "lock"
    assert holders(path) == []
    with path.open("w") as mine:
        assert holders(path) == []
        assert lock_file(mine.fileno(), path)
        assert holders(path) == [os.getpid()]


if __name__ == "__main__":
    (go_on_without if sys.argv[2:] else be_refused)(Path(sys.argv[1]))
