"""A training with two processes on one machine, without GPUs: they compute on the CPU.

`make test` has its parts: tests/launching/test_torchrun.py, tests/training/test_distributed.py.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.faults.processes import CHECKPOINT, started, stop_at, wait_until_signalled

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.timeout(1500)]


def test_they_listen_on_the_loopback_interface_alone_stop_and_continue(after):
    project = after("data")
    options = ("--config", "GPUS=2", "SET=[TRAIN.MAX_STEPS=6]")
    call = project.command("--cores", "2", "train_tiny", *options)
    environment = {"CUDA_VISIBLE_DEVICES": "0,1"}
    event = stop_at(project.folder, 2, publishes=CHECKPOINT)
    with started(project, *call, environment=environment | event) as command:
        with command.held("rank"):
            ranks = command.find("rank")
            sockets = [s for process in command.alive() for s in process.net_connections("inet")]
            os.killpg(command.process.pid, signal.SIGINT)
            for rank in ranks:
                wait_until_signalled(rank)
        assert command.wait() != 0
        assert command.orphans() == []
        assert "the same command continues from there" in command.text
    assert len(ranks) == 2
    assert {socket.laddr.ip for socket in sockets if socket.status == "LISTEN"} == {"127.0.0.1"}
    with started(project, *call, environment=environment) as command:
        command.succeed()
    (run,) = (project.folder / "runs").glob("*/*/run.json")
    record = json.loads(run.read_text())
    assert record["processes"] == 2
    first, second = (start["step"] for start in record["starts"])
    assert first == 0
    assert 2 <= second < 6
