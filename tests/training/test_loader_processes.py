"""Worker processes: signals to all of them, and the end of their parent."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from vrtspike.training.batches import _is_of_a_lost_worker

ROOT = Path(__file__).parents[2]

BEGINNING = """
import multiprocessing, os, signal, threading
from itertools import islice

from tests.training.forecast import Waves
from vrtspike.training.batches import LoaderOptions, ShuffledBatches
from vrtspike.launching.signals import StopRequest

if __name__ == "__main__":
    batches = ShuffledBatches(Waves(64), 2, 1, options=LoaderOptions(2))
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


def run(folder: Path, end: str) -> subprocess.CompletedProcess[str]:
    script = folder / "run.py"
    script.write_text(BEGINNING + end)
    return subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        start_new_session=True,
    )


def test_a_failed_training_does_not_wait_for_its_workers_for_ever(tmp_path):
    done = run(tmp_path, FAIL)
    assert done.stdout == "2\n", done.stderr
    assert done.returncode == 1
    assert "the training failed" in done.stderr


def test_workers_of_a_killed_training_end_though_nobody_takes_their_batches(tmp_path):
    done = run(tmp_path, DIE)
    assert done.returncode == -signal.SIGKILL
    workers = [int(number) for number in done.stdout.splitlines()[1].split()]
    assert len(workers) == 2
    deadline = time.monotonic() + 60
    while any(psutil.pid_exists(worker) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_worker_is_told_to_the_user(tmp_path):
    done = run(tmp_path, LOSE)
    assert done.returncode == 1
    assert "RunError: a process that loads data has ended, as when memory is full" in done.stderr


def test_a_connection_that_breaks_is_told_by_whose_it_was():
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    with pytest.raises(EOFError) as lost:
        ours.recv_bytes()
    assert _is_of_a_lost_worker(lost.value)
    with pytest.raises(ConnectionError) as of_the_data:
        raise ConnectionResetError("the disk is far away")
    assert not _is_of_a_lost_worker(of_the_data.value)
    assert _is_of_a_lost_worker(RuntimeError("DataLoader worker (pid 7) is killed by signal"))
    assert not _is_of_a_lost_worker(RuntimeError("size mismatch"))


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
