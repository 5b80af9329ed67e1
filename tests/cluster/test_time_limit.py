"""End of a training before the wall time of its job."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from vrtspike.cluster import time_limit as time_limit_module
from vrtspike.cluster.time_limit import MARGIN_S, TimeLimit, time_limit


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
    monkeypatch.setattr(time_limit_module, "time", SimpleNamespace(monotonic=lambda: now))
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
    monkeypatch.setattr(time_limit_module, "time", SimpleNamespace(monotonic=lambda: 7.0))
    assert time_limit({"SLURM_JOB_ID": "7"}).seconds() == 600 - MARGIN_S
    squeue.write_text(f"#!/bin/sh\n{failure}\n")
    assert time_limit({"SLURM_JOB_ID": "7"}).seconds() == math.inf


def test_the_time_limit_may_be_given_in_the_environment(monkeypatch):
    assert time_limit({}) is time_limit({"VRTSPIKE_JOB_ENDS": "soon"}) is None
    clocks = SimpleNamespace(monotonic=lambda: 7.0, time=lambda: 1e9)
    monkeypatch.setattr(time_limit_module, "time", clocks)
    end = time_limit({"VRTSPIKE_JOB_ENDS": str(10**9 + 4000)})
    assert end.seconds() == 4000 - MARGIN_S
