"""Arguments and environment of the training processes of a machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from vrtspike.launching import torchrun
from vrtspike.launching.gpus import Devices
from vrtspike.launching.torchrun import (
    RENDEZVOUS_FILE_VARIABLE,
    ProgramExit,
    start_training,
    training_environment,
)
from vrtspike.training.distributed import rendezvous_url

TWO = Devices(("GPU-a", "GPU-b"))

TRAINING = """
import json, sys
from pathlib import Path
import psutil, torch
from vrtspike.training.distributed import Replica, join_process_group

folder = Path(sys.argv[sys.argv.index("--run-dir") + 1])
with join_process_group("cpu") as ranks:
    replica = Replica(torch.nn.Linear(1, 1, bias=False), ranks).module
    replica(torch.full((1, 1), ranks.rank + 1.0)).sum().backward()
    torchrun = psutil.Process().parent()
    ranks.barrier()
    if ranks.is_main:
        found = [torchrun, *torchrun.children(recursive=True)]
        sockets = [socket for process in found for socket in process.net_connections("inet")]
        addresses = [socket.laddr.ip for socket in sockets if socket.status == "LISTEN"]
        seen = {"addresses": addresses, "gradient": next(replica.parameters()).grad.item()}
        (folder / "seen.json").write_text(json.dumps(seen))
    ranks.barrier()
"""


@pytest.mark.parametrize(
    ("threads", "ranks", "expected"),
    [
        (None, 1, "12"),
        (None, 5, "2"),
        (None, 24, "1"),
        ("8", 2, "4"),
        ("8", 1, "8"),
        # More than there are would fight for them.
        ("1024", 3, "4"),
        ("", 1, "12"),
        # A list: threads by depth of nested parallel regions.
        ("4,2", 2, "2"),
        ("many", 1, "12"),
    ],
)
def test_threads_are_divided_among_the_processes(monkeypatch, threads, ranks, expected):
    # The machine of the tests may have too few to tell a quotient from 1.
    monkeypatch.setattr(torchrun, "available_cpus", lambda: 12)
    if threads is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert training_environment(Devices(), ranks)["OMP_NUM_THREADS"] == expected


def test_processes_of_one_machine_listen_on_the_loopback_interface_alone(tmp_path):
    program = tmp_path / "training.py"
    program.write_text(TRAINING)
    assert start_training(tmp_path, TWO, program, {}) == ProgramExit(0, was_stopped=False)
    record = json.loads((tmp_path / "seen.json").read_text())
    assert record["gradient"] == 1.5  # of both: they have talked
    assert set(record["addresses"]) == {"127.0.0.1"}


@pytest.fixture
def started(monkeypatch) -> dict[str, list[str] | dict[str, str]]:
    """Command and environment of what is started, in place of the start."""
    record: dict[str, list[str] | dict[str, str]] = {}

    def note(command: list[str], stop: object, environment: dict[str, str], *_: object):
        record.update(command=command, environment=environment)
        return ProgramExit(0, was_stopped=False)

    monkeypatch.setattr(torchrun, "run_program", note)
    return record


def test_machines_meet_at_an_endpoint_and_choose_their_interfaces(started, tmp_path):
    start_training(tmp_path, TWO, Path("train.py"), {}, nodes=2, endpoint="first:29400")
    command = started["command"]
    assert command[command.index("--nnodes") + 1] == "2"
    assert command[command.index("--rdzv-endpoint") + 1] == "first:29400"
    added = set(started["environment"]) - set(os.environ)
    assert not added & {RENDEZVOUS_FILE_VARIABLE, "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}


def test_an_interface_for_several_machines_does_not_apply_to_one(started, tmp_path, monkeypatch):
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth0")
    start_training(tmp_path, TWO, Path("train.py"), {})
    assert started["environment"]["NCCL_SOCKET_IFNAME"] == "lo"


def test_processes_meet_in_a_file_where_one_is_named(monkeypatch):
    monkeypatch.delenv(RENDEZVOUS_FILE_VARIABLE, raising=False)
    assert rendezvous_url() == "env://"
    monkeypatch.setenv(RENDEZVOUS_FILE_VARIABLE, "/tmp/some/processes")
    assert rendezvous_url() == "file:///tmp/some/processes"
