from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from vrtspike.data.loading import available_cpus
from vrtspike.errors import ConfigError
from vrtspike.training.devices import Devices
from vrtspike.training.launch import STATUS_FILE, report_status, train
from vrtspike.training.node import training_environment
from vrtspike.training.signals import ORPHANED


@pytest.mark.parametrize(("given", "ranks", "expected"), [("1", 1, "1"), ("1", 4, "1")])
def test_threads_are_divided_among_the_processes(monkeypatch, given, ranks, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    found = training_environment(Devices(), ranks)
    assert found["OMP_NUM_THREADS"] == expected


def test_threads_never_exceed_the_cpus(monkeypatch):
    cpus = available_cpus()
    monkeypatch.setenv("OMP_NUM_THREADS", "1024")
    assert training_environment(Devices(), 1)["OMP_NUM_THREADS"] == str(cpus)
    monkeypatch.delenv("OMP_NUM_THREADS")
    halved = training_environment(Devices(), 2)["OMP_NUM_THREADS"]
    assert halved == str(max(1, cpus // 2))


def test_devices_reach_the_processes():
    found = training_environment(Devices(("GPU-a", "GPU-b")), 2)
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert training_environment(Devices(), 1)["CUDA_VISIBLE_DEVICES"] == ""


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
        train(tmp_path, 0, Path("train.py"), nodes=2)


WAITING = """
import sys, time
from pathlib import Path
from vrtspike.training.launch import report_status
from vrtspike.training.signals import StopRequest, heed_stops
heed_stops()
folder = Path(sys.argv[sys.argv.index("--run-dir") + 1])
with StopRequest() as stop:
    (folder / "ready").touch()
    while not stop.received:
        time.sleep(0.01)
(folder / "stopped").write_text(stop.received)
sys.exit(report_status(75))
"""

LAUNCHER = """
import sys
from pathlib import Path
from vrtspike.training.launch import train
folder = Path(sys.argv[1])
sys.exit(train(folder, 0, folder / "waiting.py"))
"""


@pytest.fixture
def family(tmp_path) -> Iterator[list[psutil.Process]]:
    """A launcher, its torchrun and the training process, which waits to be asked to stop."""
    (tmp_path / "waiting.py").write_text(WAITING)
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline, "training has not begun"
        assert launcher.poll() is None, launcher.communicate()[0]
        time.sleep(0.01)
    first = psutil.Process(launcher.pid)
    found = [first, *first.children(recursive=True)]
    assert len(found) == 3
    yield found
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    launcher.communicate()


def test_a_signal_to_every_process_of_a_job_kills_none(family, tmp_path):
    for process in family[1:]:
        process.send_signal(signal.SIGTERM)
    assert family[0].wait(timeout=60) == 75
    assert (tmp_path / "stopped").read_text() == "SIGTERM"


def test_a_killed_launcher_leaves_a_run_that_saves(family, tmp_path):
    family[0].kill()
    _, alive = psutil.wait_procs(family[1:], timeout=60)
    assert not alive
    assert (tmp_path / "stopped").read_text() == ORPHANED.name
