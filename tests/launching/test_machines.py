"""Training processes of a launcher: exit status, signals, held GPUs and crashes."""

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

from tests.helpers.concurrency import run_python
from vrtspike.launching.gpu_locks import lock_gpu
from vrtspike.launching.machines import DeviceRequest, require_devices
from vrtspike.launching.signals import LAUNCHER_DIED, status_file
from vrtspike.launching.torchrun import run_program
from vrtspike.system.errors import ConfigError, RunError

WAITING = """
import os, sys, time
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("--run-dir") + 1])
assert os.environ["VRTSPIKE_LOG_FILE"] == str(folder / "train.log")
ready = folder / "ready-{RANK}-{WORLD_SIZE}".format(**os.environ)
from vrtspike.launching.signals import StopRequest, restore_stop_signals
from vrtspike.launching.signals import report_start, report_status
restore_stop_signals()
if (folder / "slow").exists():
    ready.touch()
    time.sleep(100)
with StopRequest() as stop:
    report_start()
    ready.touch()
    while not stop.received:
        time.sleep(0.01)
if (folder / "faulty").exists():
    raise RuntimeError("no space left")
(folder / "stopped").write_text(stop.received)
sys.exit(report_status(75))
"""

LAUNCHER = """
import os, sys
from pathlib import Path
from vrtspike.cluster.current_job import time_limit
from vrtspike.launching.machines import DeviceRequest, gpus_option, train_on_machines
from vrtspike.monitoring.display import Messages
folder = Path(sys.argv[1])
machines = DeviceRequest(gpus_option(sys.argv[2]))
messages = Messages(folder / "train.log")
limit = time_limit(os.environ)
sys.exit(train_on_machines(folder, machines, folder / "waiting.py", messages, limit))
"""


@contextlib.contextmanager
def start(
    folder: Path, gpus: str = "0"
) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A launcher and the training process, which waits to be asked to stop.

    Two devices have two of these, with torchrun in between.
    """
    (folder / "waiting.py").write_text(WAITING)
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(folder), gpus],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    processes = [psutil.Process(launcher.pid)]
    ranks = 2 if gpus == "2" else 1
    ready = [folder / f"ready-{rank}-{ranks}" for rank in range(ranks)]
    try:
        deadline = time.monotonic() + 240
        while not all(path.exists() for path in ready):
            assert launcher.poll() is None, launcher.communicate()[0]
            assert time.monotonic() < deadline, "training has not begun"
            time.sleep(0.01)
        processes += processes[0].children(recursive=True)
        assert len(processes) == (2 if ranks == 1 else 2 + ranks)
        yield launcher, processes
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        launcher.communicate()
        for path in ready:
            path.unlink(missing_ok=True)


TWO = [{"uuid": f"GPU-{letter}", "total": 40, "used": 0} for letter in "ab"]


@pytest.fixture(params=["0", "2"], ids=["alone", "torchrun"])
def family(request, tmp_path, install_gpus) -> Iterator[list[psutil.Process]]:
    install_gpus(*TWO)
    with start(tmp_path, request.param) as (_, processes):
        yield processes


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("slow", 75, "stopped before training had begun"),
        ("faulty", 1, "failed while it was"),
    ],
)
def test_a_crash_and_a_stop_before_training_have_other_statuses(tmp_path, kind, code, message):
    (tmp_path / kind).touch()
    with start(tmp_path) as (launcher, _):
        launcher.terminate()
        output, _ = launcher.communicate(timeout=800)
    assert launcher.returncode == code, output
    assert message in output
    assert not list(tmp_path.glob(".status-*"))


def test_a_run_holds_devices_that_share_its_batches_to_its_end(tmp_path, install_gpus):
    install_gpus(*TWO)
    (tmp_path / "run.json").write_text(json.dumps({"status": "interrupted", "micro_batches": 7}))
    # Two processes could not share them.
    with start(tmp_path, "auto") as (launcher, (_, rank)):
        assert rank.environ()["CUDA_VISIBLE_DEVICES"] == "GPU-a"
        lock = tmp_path / "locks/GPU-a.gpu"
        assert lock.read_text().startswith(f"process {launcher.pid} of ")
        # The processes of a killed launcher still save, and still use the device.
        rank.suspend()
        launcher.kill()
        launcher.wait()
        assert lock_gpu(lock) is None
        rank.resume()
        psutil.wait_procs([rank], timeout=800)
        descriptor = lock_gpu(lock)
        assert descriptor is not None
        os.close(descriptor)


def test_the_end_of_a_job_stops_training(tmp_path, monkeypatch):
    (tmp_path / "waiting.py").write_text(WAITING)
    monkeypatch.setenv("VRTSPIKE_JOB_ENDS", str(int(time.time())))
    done = run_python("-c", LAUNCHER, tmp_path, 0)
    assert done.returncode == 75, done.stdout + done.stderr
    assert "the time limit of the job is near: asking training to stop" in done.stdout


def test_a_signal_to_every_process_of_a_job_stops_training_in_order(family, tmp_path):
    launcher, *others = family
    others[-1].send_signal(signal.SIGSTOP)
    for process in reversed(others):
        process.send_signal(signal.SIGTERM)
    launcher.send_signal(signal.SIGHUP)
    assert launcher.wait(timeout=800) == 75
    assert (tmp_path / "stopped").read_text() == "SIGTERM"


def test_a_signal_while_a_program_starts_stops_it():
    stopped = []

    def stop(process: psutil.Process) -> None:
        stopped.append(process.pid)
        process.kill()

    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        done = run_program(
            [sys.executable, "-c", "import time; time.sleep(20)"], stop, dict(os.environ),
            lambda: os.kill(os.getppid(), signal.SIGTERM),
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert done == (-signal.SIGKILL, True)
    assert len(stopped) >= 1


def test_a_failure_names_the_signal_and_how_to_continue(tmp_path, install_gpus):
    install_gpus(*TWO)
    for gpus, killed in (("0", slice(1, 2)), ("2", slice(1, 4)), ("2", slice(2, 3))):
        with start(tmp_path, gpus) as (launcher, processes):
            for process in processes[killed]:  # the real programs end with torchrun
                process.kill()
            output, _ = launcher.communicate(timeout=800)
        assert launcher.returncode == 1
        assert output.splitlines()[-1] == (
            "training failed: a process was ended by SIGKILL, as when memory is full. What was "
            f"saved stays in {tmp_path}; the same command continues from there"
        )


def test_a_killed_launcher_leaves_a_run_that_saves(family, tmp_path):
    family[0].kill()
    _, alive = psutil.wait_procs(family[1:], timeout=800)
    assert not alive
    assert (tmp_path / "stopped").read_text() == LAUNCHER_DIED.name
    (left,) = tmp_path.glob(".status-*")
    with status_file(tmp_path):
        assert not left.exists()


def test_machines_that_a_training_cannot_reach_are_refused(monkeypatch, install_gpus):
    install_gpus(*TWO)
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    require_devices(DeviceRequest("auto"))
    require_devices(DeviceRequest(2))
    with pytest.raises(RunError, match="3 GPUs are asked for, but 2 can be used"):
        require_devices(DeviceRequest(3))
    with pytest.raises(ConfigError, match="NODES is 2, but this is no Slurm job"):
        require_devices(DeviceRequest(2, nodes=2))
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    # The nodes have GPUs of their own.
    require_devices(DeviceRequest(3, nodes=2))


def test_a_node_runs_the_program_and_ends_with_its_status(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys\nprint(*sys.argv[1:])\nsys.exit(3)\n")
    command = [sys.executable, "-m", "vrtspike.launching.machines", "--run-dir", str(tmp_path)]
    command += ["--program", str(program), "--gpus", "0", "--nodes", "1", "--endpoint", "here:1"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 3, completed.stderr
    assert completed.stdout == f"--run-dir {tmp_path}\n"
