from __future__ import annotations

import math
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from vrtspike.cluster import scheduler
from vrtspike.cluster.scheduler import (
    FAILURE_REASONS,
    MARGIN_S,
    TimeLimit,
    explain,
    query,
    seconds_left,
    srun_command,
    time_limit,
)
from vrtspike.system.errors import ConfigError


def test_a_query_has_no_standard_input():
    kept, (reading, writing) = os.dup(0), os.pipe()
    os.dup2(reading, 0)
    try:
        assert query(["cat"], limit_s=20).text == ""
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, reading, writing):
            os.close(descriptor)


def test_the_users_variables_for_slurm_are_not_passed_on(monkeypatch):
    """``SQUEUE_PARTITION`` would leave out the jobs of other partitions: they would seem lost."""
    for name in ("SQUEUE_PARTITION", "SACCT_FORMAT", "SCANCEL_INTERACTIVE", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    found = (query(["env"]).text or "").splitlines()
    assert "LC_ALL=C" in found
    assert [line for line in found if line.endswith("=mine")] == ["SLURM_CLUSTERS=mine"]


# As Slurm 22.05 writes it into the log of a job, without cgroups and with them.
KILLED = "slurmstepd-n0: error: StepId=2.0 exceeded memory limit (622780416 > 524288000), being"
OOM = (
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may "
    "have been killed by the cgroup out-of-memory handler."
)
SRUN = "srun: error: n0: task 0: Out Of Memory"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (KILLED, FAILURE_REASONS["OUT_OF_MEMORY"]),
        (OOM, FAILURE_REASONS["OUT_OF_MEMORY"]),
        (SRUN, FAILURE_REASONS["OUT_OF_MEMORY"]),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "failed"),
        ("srun: error: n0: task 0: Exited with exit code 1", "failed"),
        ("a metric named out of memory", "failed"),
        ("the time limit of the job is near: asking training to stop", "its wall time was about"),
        ("Command 'x' died with <Signals.SIGKILL: 9>.", "was ended by SIGKILL"),
        ("Command 'x' returned non-zero exit status 137.", "was ended by SIGKILL"),
        ("srun: error: n1: task 0: Killed", "was ended by SIGKILL"),
        ("Command 'x' died with <Signals.SIGTERM: 15>.", "was ended by SIGTERM"),
    ],
)
def test_the_log_of_a_failed_job_explains_it(line, why):
    assert why in explain("FAILED", f"step 7\n{line}\nmore\n")
    # What Slurm says itself counts more.
    assert explain("NODE_FAIL", line) == "its node failed"


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


SQUEUE = """\
#!/bin/sh
case "$*" in *%D*) echo 2;; *%L*) echo '8 7:00
7 10:00';; esac
"""


@pytest.fixture
def squeue(tmp_path, monkeypatch) -> Path:
    """Slurm's program, which gives one answer."""
    program = tmp_path / "squeue"
    program.write_text(SQUEUE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return program


def test_srun_gets_all_nodes_and_gpus_of_the_job(squeue, monkeypatch):
    # Snakemake's job steps take SLURM_JOB_NUM_NODES away: Slurm is asked then.
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(ConfigError, match="NODES is 2, but this is no Slurm job"):
        srun_command(2, 0)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert srun_command(2, "auto")[-2:] == ["--gpus-per-node", "2"]
    assert srun_command(2, 1)[-2:] == ["--gpus-per-node", "1"]
    assert srun_command(2, 0)[-2:] == ["--gres", "none"]
    with pytest.raises(ConfigError, match="NODES is 3, but the Slurm job has 2"):
        srun_command(3, 0)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([3600], [3510]),
        ([360, 300], [270, 210]),
        # Of a short job a quarter is kept, of what was left at first.
        ([40, 20], [30, 10]),
        ([None, 60], [math.inf, 45]),
        # No answer leaves the end as it was.
        ([3600, None, None], [3510, 3410, 3310]),
        ([math.inf, None], [math.inf, math.inf]),
        ([-5], [0]),
    ],
)
def test_training_stops_before_the_end_of_its_job(monkeypatch, answers, expected):
    now = 5000.0
    # The programs that are asked have a clock of their own.
    monkeypatch.setattr(scheduler, "time", SimpleNamespace(monotonic=lambda: now))
    given = iter([None, *answers])
    limit = TimeLimit(lambda: next(given))
    assert not limit.reached
    for left in expected:
        assert limit.seconds() == left
        assert limit.reached == (left == 0)
        now += 100


@pytest.mark.parametrize("failure", ["exit 1", "echo '7 1:00'; exit 1", "echo '7 NOT_SET'"])
def test_the_time_limit_is_that_of_the_job_and_unknown_without_an_answer(squeue, failure):
    assert 500 < time_limit({"SLURM_JOB_ID": "7"}).seconds() <= 600 - MARGIN_S
    squeue.write_text(f"#!/bin/sh\n{failure}\n")
    assert time_limit({"SLURM_JOB_ID": "7"}).seconds() == math.inf


def test_the_time_limit_may_be_given_in_the_environment():
    assert time_limit({}) is time_limit({"VRTSPIKE_JOB_ENDS": "soon"}) is None
    end = time_limit({"VRTSPIKE_JOB_ENDS": str(int(time.time()) + 4000)})
    assert 3500 < end.seconds() < 3911
