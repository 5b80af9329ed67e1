"""Two Snakemakes that come at the same time: each ends with the right results."""

from __future__ import annotations

import contextlib
import signal

import psutil
import pytest

from tests.faults.processes import started, stop_at
from tests.faults.results import leftovers, results

pytestmark = [pytest.mark.endurance, pytest.mark.workflow]

WAITING = "waiting for another snakemake"


@pytest.mark.core
def test_on_one_checkout_the_second_waits_and_finds_everything_done(after, undisturbed):
    project = after("data")
    call = project.command("--cores", "2", "train_tiny")
    with started(project, *call) as one, started(project, *call) as other:
        assert (one.wait(), other.wait()) == (0, 0), one.text + other.text
        outputs = [one.text, other.text]
    assert sorted(WAITING in text for text in outputs) == [False, True]
    (waited,) = (text for text in outputs if WAITING in text)
    assert "Nothing to be done" in waited
    result = results(project.folder)
    assert result == {name: undisturbed.results[name] for name in result}
    assert "train/tiny/weights.safetensors" in result
    assert leftovers(project.folder) == []


def test_a_waiting_process_can_be_ended_and_a_killed_one_is_not_waited_for(after):
    project = after("data")
    call = project.command("--cores", "2", "train_tiny")
    event = stop_at(project.folder, begins="rank")
    with started(project, *call, environment=event) as one, one.held("rank"):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with started(project, *call) as other:
                other.wait_for(lambda other=other: WAITING in other.text)
                other.process.send_signal(number)
                assert other.wait() != 0
                assert other.orphans() == []
        assert one.process.poll() is None
        with started(project, *call) as other:
            other.wait_for(lambda: WAITING in other.text)
            for process in one.alive():
                with contextlib.suppress(psutil.NoSuchProcess):  # it ended with its starter
                    process.kill()
            assert other.wait() == 0, other.text
