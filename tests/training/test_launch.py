from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from vrtspike.errors import ConfigError
from vrtspike.training.devices import Devices
from vrtspike.training.launch import STATUS_FILE, report_status, train, training_environment


@pytest.mark.parametrize(("given", "ranks", "expected"), [("1", 1, "1"), ("1", 4, "1")])
def test_threads_are_divided_among_the_processes(monkeypatch, given, ranks, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    found = training_environment(Devices(), ranks, Path("status"))
    assert found["OMP_NUM_THREADS"] == expected


def test_threads_never_exceed_the_cpus(monkeypatch):
    cpus = len(os.sched_getaffinity(0))
    monkeypatch.setenv("OMP_NUM_THREADS", "1024")
    assert training_environment(Devices(), 1, Path("s"))["OMP_NUM_THREADS"] == str(cpus)
    monkeypatch.delenv("OMP_NUM_THREADS")
    halved = training_environment(Devices(), 2, Path("s"))["OMP_NUM_THREADS"]
    assert halved == str(max(1, cpus // 2))


def test_devices_reach_the_processes():
    found = training_environment(Devices(("GPU-a", "GPU-b")), 2, Path("s"))
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert training_environment(Devices(), 1, Path("s"))["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    ("status", "world", "expected"), [(0, 2, 0), (75, 2, 0), (2, 1, 0), (2, 2, 2)]
)
def test_status_goes_to_the_launcher(tmp_path, monkeypatch, status, world, expected):
    monkeypatch.setenv("WORLD_SIZE", str(world))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv(STATUS_FILE, raising=False)
    assert report_status(status) == status
    path = tmp_path / "status"
    monkeypatch.setenv(STATUS_FILE, str(path))
    assert report_status(status) == expected
    assert not path.exists()
    monkeypatch.setenv("RANK", "0")
    report_status(status)
    assert path.read_text() == str(status)


def test_several_nodes_need_an_allocation(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(ConfigError, match="NODES is 2, but this is no Slurm job"):
        train(tmp_path, Devices(), Path("train.py"), nodes=2)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    with pytest.raises(ConfigError, match="NODES is 3, but the Slurm job has 2"):
        train(tmp_path, Devices(), Path("train.py"), nodes=3)


SRUN = """#!/usr/bin/env python3
# Starts the command once for each of two nodes, both on this machine.
import subprocess, sys
command = sys.argv[1 + sys.argv[1:].index(sys.executable) :]
nodes = [subprocess.Popen(command) for _ in range(2)]
sys.exit(max(node.wait() for node in nodes))
"""

PROGRAM = """
import os, sys
from pathlib import Path
from vrtspike.training.launch import report_status
folder = Path(sys.argv[sys.argv.index("--run-dir") + 1])
(folder / f"rank{os.environ['RANK']}").write_text(os.environ["WORLD_SIZE"])
sys.exit(report_status(75))
"""


def test_two_nodes_train_as_one_run(tmp_path, monkeypatch):
    srun, program = tmp_path / "srun", tmp_path / "program.py"
    srun.write_text(SRUN.replace("/usr/bin/env python3", sys.executable))
    srun.chmod(0o755)
    program.write_text(PROGRAM)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", str(os.getpid()))
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    assert train(tmp_path, Devices(), program, nodes=2) == 75
    assert [(tmp_path / f"rank{n}").read_text() for n in range(2)] == ["2", "2"]
