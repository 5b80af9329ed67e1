from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vrtspike.training.checkpoints import list_checkpoints, read_checkpoint

from .setup_run import records

PROGRAM = Path(__file__).with_name("kill_run.py")
KILLS = 20
RUN = {
    "GRADIENT_ACCUMULATION_STEPS": 1,
    "MAX_STEPS": 130,
    "SAVE_EVERY_STEPS": 3,
    "EMA": 0.9,
    "PRECISION": "bf16-mixed",
}


@pytest.mark.slow
def test_twenty_kills_leave_the_result_as_it_is(tmp_path):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), json.dumps(RUN), str(KILLS), "0"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ends"] == [[0, 0], [0, 0]], done.stderr
    whole, killed, history = tmp_path / "whole", tmp_path / "killed", found["history"]
    assert len(history) == KILLS
    assert all(-signal.SIGKILL in attempt["statuses"] for attempt in history)
    # Some died while they wrote a checkpoint and left a part of it behind.
    assert sum(attempt["torn"] for attempt in history) >= 3
    assert records(killed) == records(whole)
    states = [read_checkpoint(list_checkpoints(f / "checkpoints")[0][1]) for f in (whole, killed)]
    for part in ("model", "average"):
        for name, value in states[0][part].items():
            assert torch.equal(value, states[1][part][name]), name
    assert not list((killed / "checkpoints").glob(".*.tmp.pt"))
