"""Launched trainings: exit status, signals, held GPUs, finished runs and crashes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.concurrency import run_python
from tests.runs.test_identity import STATISTICS, finish, write_dataset
from vrtspike.cluster.gpu_locks import lock_gpu
from vrtspike.cluster.launch import Launch, has_advanced, launch, run_end_hook
from vrtspike.cluster.signals import LAUNCHER_DIED, status_file
from vrtspike.cluster.torchrun import run
from vrtspike.config import load_preset
from vrtspike.io.files import write_json
from vrtspike.monitoring.display import Messages
from vrtspike.runs.folder import is_finished, lock_run
from vrtspike.runs.identity import identify
from vrtspike.runs.published import read_published

WAITING = """
import os, sys, time
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("--run-dir") + 1])
assert os.environ["VRTSPIKE_LOG_FILE"] == str(folder / "train.log")
ready = folder / "ready-{RANK}-{WORLD_SIZE}".format(**os.environ)
from vrtspike.cluster.signals import StopRequest, restore_stops
from vrtspike.cluster.signals import report_start, report_status
restore_stops()
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
from vrtspike.cluster.time_limit import time_limit
from vrtspike.cluster.launch import train
from vrtspike.monitoring.display import Messages
folder = Path(sys.argv[1])
gpus = sys.argv[2] if sys.argv[2] == "auto" else int(sys.argv[2])
messages = Messages(folder / "train.log")
sys.exit(train(folder, gpus, folder / "waiting.py", messages, limit=time_limit(os.environ)))
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
        done = run(
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


def test_a_finished_run_is_found_by_its_preset_and_fingerprint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset = write_dataset(tmp_path / "dataset.json", STATISTICS)
    preset = tmp_path / "config/presets/small.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text("SEED: 5\n")
    Path("config.yaml").write_text("PRESETS: [small]\nRUNS: state\n")
    run = identify("small", load_preset(preset), dataset)
    folder = tmp_path / "state/small" / run.fingerprint
    run.write(folder)
    finish(folder)
    options = {"preset": "small", "configfile": ["config.yaml"], "config": {}, "dataset": dataset}
    # Another folder would hold no run, and there is no program to train one.
    log = tmp_path / "train.log"
    log.write_text("of the start before\n")
    request = Launch(output=tmp_path / "out", log=log, **options)
    assert launch(tmp_path / "none.py", request) == 0
    assert [line.split(":")[0] for line in log.read_text().splitlines()] == ["run folder", "result"]
    assert read_published(tmp_path / "out").fingerprint == run.fingerprint
    # A second launcher of the run waits for the first one, to whose training the log belongs.
    log.write_text("of the training\n")
    with ThreadPoolExecutor(1) as pool, lock_run(folder, lock="launcher.lock"):
        second = pool.submit(launch, tmp_path / "none.py", request)
        while "waiting for" not in log.read_text():
            assert not second.done()
        first, waiting = log.read_text().splitlines()
    assert first == "of the training"
    assert waiting.startswith(f"{Path('state/small') / run.fingerprint}: waiting for ")
    assert second.result() == 0
    assert [line.split(":")[0] for line in log.read_text().splitlines()] == ["run folder", "result"]


def test_messages_about_changed_code_are_in_the_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset = write_dataset(tmp_path / "dataset.json", STATISTICS)
    Path("config/presets").mkdir(parents=True)
    Path("config/presets/small.yaml").write_text("SEED: 5\n")
    Path("config.yaml").write_text("PRESETS: [small]\nRUNS: state\n")
    run = identify("small", load_preset(Path("config/presets/small.yaml")), dataset)
    folder = Path("state/small") / run.fingerprint
    run.write(folder)
    finish(folder)
    write_json(folder / "code.json", {"schema": 0, "files": {}})
    log = tmp_path / "logs/train.log"
    request = Launch(
        "small", ["config.yaml"], {}, dataset, output=tmp_path / "out", gpus=0, log=log
    )
    assert launch(tmp_path / "none.py", request) == 0
    messages = log.read_text().splitlines()
    assert messages[:2] == [
        f"run folder: {folder}",
        "code has changed since this run began: code.json of another version; to train it again: "
        "snakemake train_small --config RETRAIN=small",
    ]
    # Set aside, the run would begin again, if there were a program.
    assert launch(tmp_path / "none.py", replace(request, retrain=True)) == 1
    former = f"the former run is now {folder}.1: code.json of another version"
    assert log.read_text().splitlines()[:2] == [f"run folder: {folder}", former]
    assert is_finished(Path(f"{folder}.1"))


@pytest.mark.parametrize(
    ("step", "start_count", "again"), [(7, 1, True), (3, 1, False), (7, 2, False)]
)
def test_a_run_that_took_no_step_is_not_queued_again(tmp_path, step, start_count, again):
    """It would be for ever, also where a job stops before it begins."""
    starts = [{"step": 0}, {"step": 3}]
    (tmp_path / "run.json").write_text(
        json.dumps({"status": "interrupted", "step": step, "starts": starts})
    )
    assert has_advanced(tmp_path, start_count) == again


def test_on_end_gets_the_status_in_its_environment(tmp_path, capfd):
    write_json(tmp_path / "run.json", {"status": "whatever", "step": 7, "metrics": {"psnr": 30.5}})
    command = 'echo "$VRTSPIKE_PRESET $VRTSPIKE_STATUS $VRTSPIKE_STEP $VRTSPIKE_METRICS"'
    command += '; echo "$VRTSPIKE_RUN" >&2; echo "$VRTSPIKE_RESULT"'
    for status, word in ((0, "finished"), (75, "interrupted"), (1, "failed")):
        run_end_hook(command, "demo", tmp_path, Path("results/demo"), status, Messages())
        assert capfd.readouterr().out.splitlines() == [
            *(f'demo {word} 7 {{"psnr": 30.5}}', str(tmp_path)),
            str(Path("results/demo").absolute()),
        ]


def test_a_failure_of_on_end_is_a_warning(tmp_path, capfd):
    log = tmp_path / "train.log"
    log.write_text("trained\n")
    run_end_hook("echo one; exit 3", "demo", tmp_path, tmp_path, 0, Messages(log))
    warning = f"warning: LOG.ON_END ended with 3; its output: {log}\n"
    assert capfd.readouterr().out == warning
    assert log.read_text() == f"trained\none\n{warning}"
