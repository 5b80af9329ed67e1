"""Messages between the first training process and the launcher."""

from __future__ import annotations

import pytest

from tests.helpers.concurrency import free_port, run_python
from vrtspike.launching.signals import (
    STATUS_FILE_VARIABLE,
    read_status,
    report_start,
    report_status,
    status_file,
)


@pytest.mark.parametrize(
    ("status", "world", "expected"), [(0, 2, 0), (75, 2, 0), (2, 1, 0), (2, 2, 2)]
)
def test_status_goes_to_the_launcher(tmp_path, monkeypatch, status, world, expected):
    monkeypatch.setenv("WORLD_SIZE", str(world))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv(STATUS_FILE_VARIABLE, raising=False)
    assert report_status(status) == status
    with status_file(tmp_path) as path:
        monkeypatch.setenv(STATUS_FILE_VARIABLE, str(path))
        report_start()
        assert report_status(status) == expected
        assert read_status(path) is None
        monkeypatch.setenv("RANK", "0")
        report_start()
        assert read_status(path) == "begun"
        report_status(status)
        assert read_status(path) == status
    # A launcher that is gone is told nothing.
    assert report_status(status) == expected
    assert not list(tmp_path.iterdir())


BUSY_AT_THE_END = """
import atexit, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from vrtspike.launching.signals import exit_process


def late(future):
    for _ in range(1000):
        time.sleep(0.001)


dist.init_process_group("gloo")
DistributedDataParallel(torch.nn.Linear(1, 1))
unfinished = [dist.all_reduce(torch.ones(1), async_op=True).get_future().then(late) for _ in "12"]
dist.destroy_process_group()
atexit.register(print, "registered")
print("trained")
exit_process(75)
"""


def test_leaves_while_a_thread_of_the_process_group_is_busy():
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    with free_port() as port:
        done = run_python("-c", BUSY_AT_THE_END, env=alone | {"MASTER_PORT": str(port)})
    assert done.returncode == 75, done.stderr
    assert done.stdout.splitlines() == ["trained", "registered"]
