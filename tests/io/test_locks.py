"""Locks on files, and file systems that have none."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import pytest

from tests.helpers.concurrency import is_waited_for
from vrtspike.io.locks import lock_file, locked
from vrtspike.launching.gpus import acquire_gpus
from vrtspike.runs.folder import lock_run
from vrtspike.system.errors import RunError
from vrtspike.workflow.start_checks import reserve_files


def ways_to_lock(folder: Path) -> list[AbstractContextManager[object]]:
    return [lock_run(folder / "run", timeout_s=0), acquire_gpus(1, timeout_s=0)]


@pytest.fixture
def refuse(monkeypatch, install_gpus) -> Callable[[int], None]:
    """Lets the kernel answer each ``flock`` with an error."""
    install_gpus({"uuid": "GPU-a", "total": 1, "used": 0})

    def refuse(number: int) -> None:
        error = OSError(number, os.strerror(number))
        monkeypatch.setattr(fcntl, "flock", mock.Mock(side_effect=error))

    return refuse


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_an_error_that_says_what_to_do(tmp_path, refuse, number):
    refuse(number)
    advice = ("RUNS in config", "set VRTSPIKE_GPU_LOCKS")
    for way, way_out in zip(ways_to_lock(tmp_path), advice, strict=True):
        with pytest.raises(RunError, match="option flock") as error, way:
            pass
        for words in (os.strerror(number), str(tmp_path), way_out):
            assert words in str(error.value)


def test_other_errors_of_a_lock_are_raised_unchanged(tmp_path, refuse):
    refuse(errno.EIO)
    for way in ways_to_lock(tmp_path):
        with pytest.raises(OSError, match="Input/output error"), way:
            pass


def test_snakemakes_work_without_locks(tmp_path, refuse, capsys):
    """They do no harm without."""
    refuse(errno.ENOLCK)
    assert not reserve_files(tmp_path / "turns", ["a"], print)
    assert capsys.readouterr().out == ""


def test_a_second_process_can_wait_for_the_lock(tmp_path):
    path, events = tmp_path / "folder/lock", list[object]()

    def second() -> None:
        with path.open() as stream:
            events.append(lock_file(stream.fileno(), path))
        with locked(path):
            events.append("second")

    thread = threading.Thread(target=second, daemon=True)
    with locked(path):
        thread.start()
        while not is_waited_for(path):
            assert thread.is_alive()
        events.append("first")
    thread.join(20)
    assert events == [False, "first", "second"]
