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


def test_recorded_micro_steps_exchange_what_launched_ones_do(found):
    for kind in ("launched", "recorded"):
        one, other = found[kind]
        assert [step[:-3] for step in one] == [step[:-3] for step in other]
    # Statistics are those of each process until the next pass of the launched, and sent at once by
    # the recorded; those of the first process are the same.
    for launched, recorded in zip(found["launched"][0], found["recorded"][0], strict=True):
        assert launched == pytest.approx(recorded, rel=1e-5, abs=1e-7)
    one, other = found["recorded"]
    assert one == other


def test_constants_are_not_sent(found):
    assert found["constant"] == [1.0, 2.0]


def test_running_statistics_are_those_of_the_first_process(found):
    one, other = found["statistics"]
    assert one == other
    assert any(one)


def test_all_begin_with_what_the_first_process_has(found):
    assert found["sent"] == [[3.0] * 3 + [4.0] * 3] * 2
