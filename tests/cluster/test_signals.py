"""Exit statuses of training processes, and their end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.concurrency import free_port
from vrtspike.cluster.signals import LAUNCHED, exit_status


@pytest.mark.parametrize(("status", "expected"), [(0, 0), (75, 0), (2, 2)])
def test_only_the_launcher_is_not_told_of_a_stop_by_the_exit_status(monkeypatch, status, expected):
    monkeypatch.delenv(LAUNCHED, raising=False)
    assert exit_status(status) == status
    monkeypatch.setenv(LAUNCHED, "1")
    assert exit_status(status) == expected


BUSY_AT_THE_END = """
import atexit, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from vrtspike.cluster.signals import leave


def late(future):
    for _ in range(1000):
        time.sleep(0.001)


dist.init_process_group("gloo")
DistributedDataParallel(torch.nn.Linear(1, 1))
unfinished = [dist.all_reduce(torch.ones(1), async_op=True).get_future().then(late) for _ in "12"]
dist.destroy_process_group()
atexit.register(print, "registered")
print("trained")
leave(75)
"""


def test_leaves_while_a_thread_of_the_process_group_is_busy():
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    with free_port() as port:
        done = subprocess.run(
            [sys.executable, "-c", BUSY_AT_THE_END],
            env=os.environ | alone | {"MASTER_PORT": str(port)},
            capture_output=True,
            text=True,
            timeout=800,
        )
    assert done.returncode == 75, done.stderr
    assert done.stdout.splitlines() == ["trained", "registered"]
