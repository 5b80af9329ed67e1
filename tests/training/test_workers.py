"""Worker processes: how many, signals to all of them, and the end of their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from multiprocessing.spawn import get_preparation_data
from pathlib import Path

import psutil
import pytest

from tests.helpers.concurrency import wait_until
from tests.training.forecast import Waves
from vrtspike.config.run_schema import DataloaderSettings, RunSettings
from vrtspike.training.workers import hide_main_script, resolve_worker_counts

ROOT = Path(__file__).parents[2]

BEGINNING = """
import multiprocessing, os, signal, threading
from itertools import islice

from tests.training.forecast import Waves
from tests.training.setup_run import batches_of
from vrtspike.launching.signals import StopRequest

if __name__ == "__main__":
    batches = batches_of(Waves(64), 2, workers=2)
    stream = batches.stream(0, 1, 30)
    print(len(list(islice(stream, 2))), flush=True)
"""

FAIL = """
    # Something at the end of Python still holds the iterator, as a traceback may.
    threading.main_thread().held = stream
    raise RuntimeError("the training failed")
"""

STOP = """
    with StopRequest() as request:
        os.killpg(0, signal.{name})
        print(len(list(stream)), request.received, flush=True)
"""


DIE = """
    print(*[process.pid for process in multiprocessing.active_children()], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""

LOSE = """
    multiprocessing.active_children()[0].kill()
    list(stream)
"""


def run(folder: Path, end: str, **more: str) -> subprocess.CompletedProcess[str]:
    script = folder / "run.py"
    script.write_text(BEGINNING + end)
    return subprocess.run(
        [sys.executable, str(script)],
        env={
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
            "OMP_NUM_THREADS": "1",
            "PATH": os.environ["PATH"],
            **more,
        },
        capture_output=True,
        text=True,
        timeout=800,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (FAIL, "the training failed"),
        (LOSE, "RunError: a data loading worker failed, probably because memory"),
    ],
)
def test_a_failure_is_reported_and_no_worker_is_waited_for(tmp_path, end, message):
    # WorkerCounts have their sockets elsewhere: there names would be too long.
    (tmp_path / ("x" * 80)).mkdir()
    done = run(tmp_path, end, TMPDIR=str(tmp_path / ("x" * 80)))
    assert (done.stdout, done.returncode) == ("2\n", 1), done.stderr
    assert message in done.stderr


def test_workers_of_a_killed_training_end_with_waiting_batches(tmp_path):
    done = run(tmp_path, DIE)
    assert done.returncode == -signal.SIGKILL
    workers = [int(number) for number in done.stdout.splitlines()[1].split()]
    assert len(workers) == 2
    wait_until(lambda: not any(psutil.pid_exists(worker) for worker in workers))


@pytest.mark.parametrize(
    "name",
    [
        *("SIGTERM", "SIGINT"),
        *(pytest.param(n, marks=pytest.mark.endurance) for n in ("SIGHUP", "SIGUSR1", "SIGUSR2")),
    ],
)
def test_a_signal_to_all_processes_leaves_the_step_its_batches(tmp_path, name):
    done = run(tmp_path, STOP.format(name=name))
    assert done.stdout == f"2\n28 {name}\n", done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("settings", "gpus", "cpus", "train", "val", "total"),
    [
        ({}, 3, 40, 10, 5, 30),  # auto: 32 -> 10 each, half of it for validation
        ({}, 4, 64, 12, 6, 48),  # auto: 51 -> 12 each
        ({"TOTAL_WORKERS": "cpu*0.7"}, 1, 10, 7, 3, 7),  # 0.7 * 10 is less than 7 in binary
        ({"TOTAL_WORKERS": "cpu*0.6"}, 2, 10, 4, 2, 8),  # 6 -> 3 each, but at least 4
        ({"TOTAL_WORKERS": 24}, 3, 40, 8, 4, 24),
        ({"TOTAL_WORKERS": 3}, 2, 64, 1, 1, 2),  # a number may be lower
        ({"TOTAL_WORKERS": "auto"}, 4, 12, 3, 1, 12),  # the bound beats the 4 for each
        ({}, 0, 2, 2, 1, 2),  # no GPU: one process
        ({}, 1, 1, 0, 0, 0),  # one CPU: the training process reads itself
        ({}, 8, 4, 0, 0, 0),  # fewer CPUs than GPUs
        ({"TOTAL_WORKERS": 0}, 1, 8, 0, 0, 0),
        ({"TRAIN_WORKERS": 6, "VAL_WORKERS": 1}, 2, 40, 6, 1, 12),
        ({"TRAIN_WORKERS": 30}, 2, 16, 8, 4, 16),
        ({"TRAIN_WORKERS": 0, "VAL_WORKERS": 2}, 1, 8, 0, 2, 0),
    ],
)
def test_workers_are_divided_among_gpus(settings, gpus, cpus, train, val, total):
    workers = resolve_worker_counts(DataloaderSettings.model_validate(settings), gpus, cpus)
    assert (workers.train, workers.val, workers.train * workers.processes) == (train, val, total)


def test_start_lines_hold_the_resolved_numbers():
    text = resolve_worker_counts(DataloaderSettings(), 3, 40).describe(RunSettings())
    lines = text.splitlines()
    assert "CPUs this process may use: 40" in text
    assert "training workers: 30 (for 3" in text
    assert lines.index("  - num_workers: 10 (per GPU)") < lines.index(
        "  - num_workers: 5 (per GPU)"
    )


def test_workers_do_not_run_the_script(monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", "/home/someone/train.py", raising=False)
    monkeypatch.setattr(main, "__spec__", None)

    def sent() -> str | None:
        return get_preparation_data("worker").get("init_main_from_path")

    with hide_main_script(Waves):
        assert sent() is None
    with pytest.raises(ZeroDivisionError), hide_main_script(Waves):
        _ = 1 / 0
    assert sent() == "/home/someone/train.py"
    local_class = type("Own", (), {"__module__": "__main__"})
    with hide_main_script(local_class):
        assert sent() == "/home/someone/train.py"
