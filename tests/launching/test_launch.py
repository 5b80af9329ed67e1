from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from vrtspike.cpus import available_cpus
from vrtspike.errors import ConfigError
from vrtspike.launching.gpus import Devices
from vrtspike.launching.launch import train
from vrtspike.launching.signals import ORPHANED
from vrtspike.launching.status import status_file
from vrtspike.launching.torchrun import training_environment


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


def test_several_nodes_need_an_allocation(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(ConfigError, match="NODES is 2, but this is no Slurm job"):
        train(tmp_path, 0, Path("train.py"), nodes=2)


WAITING = """
import sys, time
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("--run-dir") + 1])
if (folder / "starting").exists():
    (folder / "ready").touch()
    time.sleep(1)
from vrtspike.launching.signals import StopRequest, heed_stops
from vrtspike.launching.status import report_begin, report_status
heed_stops()
if (folder / "slow").exists():
    (folder / "ready").touch()
    time.sleep(100)
with StopRequest() as stop:
    report_begin()
    (folder / "ready").touch()
    while not stop.received:
        time.sleep(0.01)
if (folder / "faulty").exists():
    raise RuntimeError("no space left")
(folder / "stopped").write_text(stop.received)
sys.exit(report_status(75))
"""

LAUNCHER = """
import sys
from pathlib import Path
from vrtspike.launching.launch import train
folder = Path(sys.argv[1])
gpus = sys.argv[2] if sys.argv[2] == "auto" else int(sys.argv[2])
sys.exit(train(folder, gpus, folder / "waiting.py"))
"""


@contextlib.contextmanager
def start(
    folder: Path, gpus: str = "0"
) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A launcher, with its torchrun and the training process, which waits to be asked to stop."""
    (folder / "waiting.py").write_text(WAITING)
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(folder), gpus],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    found = [psutil.Process(launcher.pid)]
    try:
        deadline = time.monotonic() + 60
        while not (folder / "ready").exists():
            assert launcher.poll() is None, launcher.communicate()[0]
            assert time.monotonic() < deadline, "training has not begun"
            time.sleep(0.01)
        found += found[0].children(recursive=True)
        assert len(found) == 3
        yield launcher, found
    finally:
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        launcher.communicate()


@pytest.fixture
def family(tmp_path) -> Iterator[list[psutil.Process]]:
    with start(tmp_path) as (_, found):
        yield found


@pytest.mark.parametrize(
    ("kind", "code", "said"),
    [
        ("starting", 75, "stopped before training had begun"),
        ("slow", 75, "stopped before training had begun"),
        ("faulty", 1, "failed while it was"),
    ],
)
def test_a_crash_is_no_stop(tmp_path, kind, code, said):
    (tmp_path / kind).touch()
    with start(tmp_path) as (launcher, _):
        launcher.terminate()
        output, _ = launcher.communicate(timeout=60)
    assert launcher.returncode == code, output
    assert said in output
    assert not list(tmp_path.glob(".status-*"))


def test_a_run_that_is_continued_shares_its_batches_evenly(tmp_path, monkeypatch):
    gpus = [{"uuid": f"GPU-{letter}", "total": 40, "used": 0} for letter in "ab"]
    (tmp_path / "gpus.json").write_text(json.dumps(gpus))
    driver = Path(__file__).parent.parent / "fake_driver"
    paths = [str(driver), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("FAKE_GPUS", str(tmp_path / "gpus.json"))
    monkeypatch.setenv("VRTSPIKE_GPU_LOCKS", str(tmp_path / "locks"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "run.json").write_text(json.dumps({"status": "interrupted", "micro_batches": 7}))
    # Two processes could not share them.
    with start(tmp_path, "auto") as (_, (_, _, rank)):
        assert rank.environ()["CUDA_VISIBLE_DEVICES"] == "GPU-a"


def test_the_end_of_a_job_stops_training(tmp_path, monkeypatch):
    (tmp_path / "waiting.py").write_text(WAITING)
    monkeypatch.setenv("VRTSPIKE_JOB_ENDS", str(int(time.time())))
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path), "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 75, done.stdout + done.stderr
    assert "the time limit of the job is near: asking training to stop" in done.stdout


def test_a_signal_to_every_process_of_a_job_kills_none(family, tmp_path):
    for process in family[1:]:
        process.send_signal(signal.SIGTERM)
    assert family[0].wait(timeout=60) == 75
    assert (tmp_path / "stopped").read_text() == "SIGTERM"


def test_a_process_that_stands_still_is_woken_to_be_asked(family, tmp_path):
    launcher, _, training = family
    training.send_signal(signal.SIGSTOP)
    launcher.send_signal(signal.SIGHUP)
    assert launcher.wait(timeout=60) == 75
    assert (tmp_path / "stopped").read_text() == "SIGTERM"


def test_how_it_failed_is_told_with_how_to_go_on(tmp_path):
    for which, said in ((1, "torchrun was"), (2, "one of its processes was")):
        with start(tmp_path) as (launcher, found):
            found[which].kill()
            if which == 1:  # the real program ends with torchrun
                found[2].kill()
            output, _ = launcher.communicate(timeout=60)
        assert launcher.returncode == 1
        assert output.splitlines()[-1] == (
            f"training failed: {said} ended by SIGKILL, as when memory is full. What was saved "
            f"stays in {tmp_path}; the same command continues from there"
        )
        (tmp_path / "ready").unlink()


def test_a_launcher_leaves_no_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with start(tmp_path) as (launcher, _):
        launcher.terminate()
        assert launcher.wait(timeout=60) == 75
    assert [*(tmp_path / "temporary").iterdir()] == []


def test_a_killed_launcher_leaves_a_run_that_saves(family, tmp_path):
    family[0].kill()
    _, alive = psutil.wait_procs(family[1:], timeout=60)
    assert not alive
    assert (tmp_path / "stopped").read_text() == ORPHANED.name
    (left,) = tmp_path.glob(".status-*")
    with status_file(tmp_path):
        assert not left.exists()
