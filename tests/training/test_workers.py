"""Worker processes: how many, signals to all of them, and the end of their parent."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.spawn import get_preparation_data
from pathlib import Path

import psutil
import pytest

from tests.concurrency import wait_until
from tests.training.forecast import Waves
from vrtspike.config.run_schema import DataloaderSettings, RunSettings
from vrtspike.training.workers import hide_main_script, resolve_workers

ROOT = Path(__file__).parents[2]

BEGINNING = """
import multiprocessing, os, signal, threading
from itertools import islice

from tests.training.forecast import Waves
from tests.training.setup_run import batches_of
from vrtspike.cluster.signals import StopRequest

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
    return start(script, **more)


def start(
    script: Path, before: Sequence[str] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, str(script)],
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


def test_a_failed_training_does_not_wait_for_its_workers_for_ever(tmp_path):
    # Workers have their sockets elsewhere: there names would be too long.
    (tmp_path / ("x" * 80)).mkdir()
    done = run(tmp_path, FAIL, TMPDIR=str(tmp_path / ("x" * 80)))
    assert done.stdout == "2\n", done.stderr
    assert done.returncode == 1
    assert "the training failed" in done.stderr


def test_workers_of_a_killed_training_end_though_nobody_takes_their_batches(tmp_path):
    done = run(tmp_path, DIE)
    assert done.returncode == -signal.SIGKILL
    workers = [int(number) for number in done.stdout.splitlines()[1].split()]
    assert len(workers) == 2
    wait_until(lambda: not any(psutil.pid_exists(worker) for worker in workers))


def test_a_killed_worker_is_reported_to_the_user(tmp_path):
    done = run(tmp_path, LOSE)
    assert done.returncode == 1
    assert "RunError: a data loading worker failed, probably because memory" in done.stderr


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
def test_worker_table(settings, gpus, cpus, train, val, total):
    workers = resolve_workers(DataloaderSettings.model_validate(settings), gpus, cpus)
    assert (workers.train, workers.val, workers.total) == (train, val, total)


def test_start_lines_hold_the_resolved_numbers():
    text = resolve_workers(DataloaderSettings(), 3, 40).describe(RunSettings())
    lines = text.splitlines()
    assert "CPUs this process may use: 40" in text
    assert "training workers: 30 (for 3" in text
    assert lines.index("  - num_workers: 10 (per GPU)") < lines.index(
        "  - num_workers: 5 (per GPU)"
    )


FILL = """
import sys
import torch
from tests.training.forecast import Waves
from vrtspike.system.cli import run
from tests.training.setup_run import batches_of

class Large(Waves):
    def __getitem__(self, index):
        return {"frames": torch.zeros(1 << 20)}

def main():
    list(batches_of(Large(64), 2, workers=1).stream(0, 1, 3))

if __name__ == "__main__":
    run(main)
"""


def test_too_little_shared_memory_is_reported(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(FILL)
    small = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=1m none /dev/shm && "$@"', "sh"]
    if subprocess.run([*small, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user and mount namespaces here")
    done = start(script, small)
    assert re.match(
        r"error: a data loading worker failed, .*/dev/shm \(1 MB\) is full", done.stderr
    )
    assert done.returncode == 2


@pytest.fixture
def script(monkeypatch):
    """The program's script is ``train.py``, which workers would run."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", "/home/someone/train.py", raising=False)
    monkeypatch.setattr(main, "__spec__", None)
    return main


def sent() -> str | None:
    return get_preparation_data("worker").get("init_main_from_path")


def test_workers_do_not_run_the_script(script):
    assert sent() == "/home/someone/train.py"
    with hide_main_script(Waves):
        assert sent() is None
    with pytest.raises(ZeroDivisionError), hide_main_script(Waves):
        _ = 1 / 0
    assert sent() == "/home/someone/train.py"
    own = type("Own", (), {"__module__": "__main__"})
    with hide_main_script(own):
        assert sent() == "/home/someone/train.py"
