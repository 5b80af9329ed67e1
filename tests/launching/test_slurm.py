"""What a job tells about itself: one of a real Slurm cluster, and one whose Slurm fails."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.workflow.cluster import PATIENCE_S, Cluster, missing, start_cluster
from vrtspike.errors import ConfigError
from vrtspike.launching import slurm as batch_system
from vrtspike.launching import torchrun as node
from vrtspike.launching.job_end import MARGIN_S
from vrtspike.launching.slurm import (
    TimeLimit,
    seconds_left,
    step_on_every_node,
    time_limit,
)
from vrtspike.launching.torchrun import Ending, run

needs_slurm = pytest.mark.skipif(missing() is not None, reason=missing() or "")

# A squeue that answers twice and then as the last lines say.
FLAKY = """#!/bin/sh
echo called >> {folder}/calls
if [ $(wc -l < {folder}/calls) -le 2 ]; then
    echo '6 9:59'
    echo '7 {left}'
    exit 0
fi
"""
FAILURES = ("exit 1", "exit 0", "echo '7 1:00'; exit 1", "echo '7 NOT_SET'", "exec sleep 30")


@pytest.fixture
def flaky(tmp_path, monkeypatch):
    """Puts a squeue in the way that stops answering."""

    def place(left: str, failure: str) -> None:
        program = tmp_path / "squeue"
        program.write_text(FLAKY.format(folder=tmp_path, left=left) + failure + "\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return place


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster() as started:
        yield started


@pytest.fixture
def here(cluster, monkeypatch) -> Cluster:
    """The cluster, spoken to by programs this process starts."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return cluster


def submit(cluster: Cluster, *options: str) -> str:
    command = ["sbatch", "--parsable", "--output=/dev/null", "--mem=100", *options]
    job = cluster.call(*command, "--wrap", "exec sleep 100").strip()
    deadline = time.monotonic() + PATIENCE_S
    while "JobState=RUNNING" not in cluster.job(job):
        assert time.monotonic() < deadline, cluster.job(job)
        time.sleep(0.1)
    return job


class Clock:
    """A clock that a test sets by hand."""

    def __init__(self) -> None:
        self.now = 5000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The clock by which time limits are kept; the programs that are asked have their own."""
    clock = Clock()
    monkeypatch.setattr(batch_system, "time", clock)
    return clock


@pytest.mark.parametrize("failure", FAILURES)
def test_a_controller_that_does_not_answer_leaves_the_end_as_it_was(
    flaky, clock, monkeypatch, failure
):
    flaky("1-00:10:00", failure)
    limit = time_limit({"SLURM_JOB_ID": "7"})
    day = 24 * 3600 + 600 - 90
    assert limit.seconds() == day
    # Only from now on: the answers before may take their time.
    monkeypatch.setattr(batch_system, "ANSWER_S", 0.5)
    for passed in (100, day + 10):
        clock.now = 5000.0 + passed
        assert limit.seconds() == max(0, day - passed)


def test_training_is_asked_although_the_controller_went_away(flaky, monkeypatch):
    """The end comes while there is no answer."""
    monkeypatch.setattr(node, "LOOK_S", 0.2)
    flaky("0:04", "exit 1")
    limit = TimeLimit("7")
    ending = run(["sleep", "100"], psutil.Process.terminate, dict(os.environ), limit=limit)
    assert ending == Ending(-signal.SIGTERM, True)


def test_a_first_answer_may_come_late(flaky, clock, tmp_path):
    (tmp_path / "calls").write_text("called\n" * 2)
    flaky("0:00", "[ $(wc -l < " + str(tmp_path / "calls") + ") -gt 3 ] && echo 7 1:00")
    limit = TimeLimit("7")
    # Of a short job a quarter is kept.
    assert limit.seconds() == 45.0
    # The margin stays what it was at first, though less time is left at the next answer.
    clock.now += 20
    assert limit.seconds() == 45.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:05", 5.0),
        ("59:59", 3599.0),
        ("2:00:01", 7201.0),
        ("3-01:00:00", 73 * 3600.0),
        ("UNLIMITED", math.inf),
        ("NOT_SET", None),
        ("INVALID", None),
        ("2026-01-01T00:00:00", None),
    ],
)
def test_times_as_slurm_writes_them(text, expected):
    assert seconds_left(text) == expected


def test_the_allocation_is_told_by_the_job_itself(flaky, monkeypatch):
    flaky("0:00", "exit 1")
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    assert step_on_every_node(2, 0)[0] == "srun"
    monkeypatch.delenv("SLURM_JOB_NUM_NODES")
    with pytest.raises(ConfigError, match="a number of nodes that squeue cannot tell"):
        step_on_every_node(2, 0)


@needs_slurm
def test_training_is_asked_before_the_end_of_its_job(here):
    job = submit(here, "--time=10")
    limit = time_limit({"SLURM_JOB_ID": job})
    left = limit.seconds()
    assert 0 < left <= 600 - MARGIN_S
    # Someone shortens the job.
    here.call("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    assert limit.seconds() == 0.0
    # Of a short job, a quarter is kept.
    assert TimeLimit(job).seconds() <= 45


def test_outside_of_a_job_there_is_no_limit():
    assert time_limit({}) is None


@needs_slurm
def test_a_job_without_a_limit_is_never_asked(here, monkeypatch):
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    array = submit(here, "--time=UNLIMITED", "--array=0-1")
    assert TimeLimit(array).seconds() == math.inf


@needs_slurm
def test_a_step_has_every_node_and_as_many_gpus(here, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", submit(here, "--nodes=2", "--time=10"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert step_on_every_node(2, "auto")[-2:] == ["--gpus-per-node", "2"]
    assert step_on_every_node(2, 1)[-2:] == ["--gpus-per-node", "1"]
    command = step_on_every_node(2, 0)
    assert command[-2:] == ["--gres", "none"]
    shown = here.call(*command, "sh", "-c", "echo $SLURMD_NODENAME:$CUDA_VISIBLE_DEVICES")
    assert sorted(shown.split()) == ["n0:", "n1:"]
    with pytest.raises(subprocess.CalledProcessError):
        here.call(*command, "sh", "-c", "[ $SLURMD_NODENAME = n0 ] && exit 2; sleep 100")
    with pytest.raises(ConfigError, match="NODES is 3, but the Slurm job has 2"):
        step_on_every_node(3, 0)
