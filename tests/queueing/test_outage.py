from __future__ import annotations

from vrtspike.queueing.outage import Outage


def test_an_outage_is_told_when_it_begins_and_when_it_ends():
    told: list[str] = []
    now = [100.0]
    outage = Outage("The queue", told.append, lambda: now[0])
    outage.answered()
    assert told == []
    outage.failed("connection refused")
    outage.failed("connection refused")
    now[0] += 125
    outage.answered()
    outage.answered()
    begun, back = told
    assert begun == (
        "The queue does not answer (connection refused); asking again every 10 s. Jobs that run "
        "go on meanwhile"
    )
    assert back == "The queue answers again, after 2:05"
    outage.failed("again")
    assert len(told) == 3
