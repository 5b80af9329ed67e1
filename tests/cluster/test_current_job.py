"""The job's time limit and the end of a training before it; srun on all nodes and GPUs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from vrtspike.cluster import current_job
from vrtspike.cluster.current_job import (
    MARGIN_S,
    TimeLimit,
    parse_slurm_time,
    srun_command,
    time_limit,
)
from vrtspike.system.errors import ConfigError


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([3600], [3510]),
        ([360, 300], [270, 210]),
        # The margin of a short job is a quarter of the time that was left at first.
        ([40, 20], [30, 10]),
        ([None, 60], [math.inf, 45]),
        # Without an answer the end stays the same.
        ([3600, None, None], [3510, 3410, 3310]),
        ([math.inf, None], [math.inf, math.inf]),
        ([-5], [0]),
    ],
)
def test_training_stops_before_the_end_of_its_job(monkeypatch, answers, expected):
    now = 5000.0
    # Only the clock of this module is replaced, not that of programs that are called.
    monkeypatch.setattr(current_job, "time", SimpleNamespace(monotonic=lambda: now))
    replies = iter([None, *answers])
    limit = TimeLimit(lambda: next(replies))
    assert not limit.reached
    for left in expected:
        assert limit.seconds() == left
        assert limit.reached == (left == 0)
        now += 100


@pytest.mark.parametrize("failure", ["exit 1", "echo '7 1:00'; exit 1", "echo '7 NOT_SET'"])
def test_the_time_limit_is_that_of_the_job_and_infinite_without_an_answer(
    squeue, monkeypatch, failure
):
    monkeypatch.setattr(current_job, "time", SimpleNamespace(monotonic=lambda: 7.0))
    assert time_limit({"SLURM_JOB_ID": "7"}).seconds() == 600 - MARGIN_S
    squeue.write_text(f"#!/bin/sh\n{failure}\n")
    assert time_limit({"SLURM_JOB_ID": "7"}).seconds() == math.inf


def test_the_time_limit_may_be_given_in_the_environment(monkeypatch):
    assert time_limit({}) is time_limit({"VRTSPIKE_JOB_ENDS": "soon"}) is None
    clocks = SimpleNamespace(monotonic=lambda: 7.0, time=lambda: 1e9)
    monkeypatch.setattr(current_job, "time", clocks)
    end = time_limit({"VRTSPIKE_JOB_ENDS": str(10**9 + 4000)})
    assert end.seconds() == 4000 - MARGIN_S


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
def test_times_in_the_format_of_slurm(text, expected):
    assert parse_slurm_time(text) == expected


def test_srun_gets_all_nodes_and_gpus_of_the_job(squeue, monkeypatch):
    # Snakemake's job steps lack SLURM_JOB_NUM_NODES: Slurm is queried instead.
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
