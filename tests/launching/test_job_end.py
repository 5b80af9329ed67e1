from __future__ import annotations

import time

import pytest

from vrtspike.launching.job_end import JobEnd, job_end


@pytest.mark.parametrize(("left", "expected"), [(3600, 3510), (360, 270), (40, 30), (-5, 0)])
def test_training_stops_before_the_end_of_its_job(monkeypatch, left, expected):
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    assert JobEnd(1000.0 + left).seconds() == expected


def test_the_margin_is_that_of_the_whole_time(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    end = JobEnd(1400.0)
    monkeypatch.setattr(time, "time", lambda: 1300.0)
    assert end.seconds() == 10.0


def test_a_process_outside_of_a_job_has_no_end():
    assert job_end({}) is None
    assert job_end({"VRTSPIKE_JOB_ENDS": "soon"}) is None
    end = job_end({"VRTSPIKE_JOB_ENDS": str(int(time.time()) + 4000)})
    assert 3500 < end.seconds() < 3911
