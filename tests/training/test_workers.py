from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
from itertools import islice

from tests.training.forecast import Waves
from vrtspike.training.batches import LoaderOptions, ShuffledBatches

if __name__ == "__main__":
    batches = ShuffledBatches(Waves(64), 2, 1, options=LoaderOptions(2))
    stream = batches.stream(0, 1, 30)
    print(len(list(islice(stream, 2))), flush=True)
    # Something at the end of Python still holds the iterator, as a traceback may.
    import threading
    threading.main_thread().held = stream
    raise RuntimeError("the training failed")
"""


def test_a_failed_training_does_not_wait_for_its_workers_for_ever(tmp_path):
    script = tmp_path / "fail.py"
    script.write_text(SCRIPT)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "2\n", done.stderr
    assert done.returncode == 1
    assert "the training failed" in done.stderr
