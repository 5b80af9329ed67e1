"""Worker processes: signals to all of them, and the end of their parent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEGINNING = """
import os, signal, threading
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


def run(folder: Path, end: str) -> subprocess.CompletedProcess[str]:
    script = folder / "run.py"
    script.write_text(BEGINNING + end)
    return subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"},
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


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT"])
def test_a_signal_to_all_processes_leaves_the_step_its_batches(tmp_path, name):
    done = run(tmp_path, STOP.format(name=name))
    assert done.stdout == f"2\n28 {name}\n", done.stderr
    assert done.returncode == 0
