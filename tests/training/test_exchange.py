"""What two real processes send each other, and what they do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent / "exchange_run.py"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What both processes saw, by what was asked."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_flat_gradients_are_exchanged_as_ddp_does(found):
    assert found["hand"][0] == found["hand"][1]
    assert found["hand"] == found["ddp"]
    first, second = found["hand"][0]
    assert first != second
    assert any(first)


def test_constants_are_not_sent(found):
    assert found["constant"] == [1.0, 2.0]


def test_running_statistics_are_those_of_the_first_process(found):
    one, other = found["statistics"]
    assert one == other
    assert any(one)


def test_all_begin_with_what_the_first_process_has(found):
    assert found["sent"] == [[3.0] * 3 + [4.0] * 3] * 2
