"""Last lines of `snakemake -n`."""

from __future__ import annotations

import io
import logging

import pytest

from vrtspike.workflow.plan_view import PlanView


@pytest.mark.parametrize(
    ("max_lines", "shown", "summary"),
    [
        (None, ["read"], ["a: asked for", "b: asked for", "c: asked for"]),
        (
            2,
            ["a", "b", "c", "target", "table", "read"],
            ["a: asked for", "and 2 more stages; vrtspike why lists them all"],
        ),
    ],
)
def test_a_plan_ends_with_its_stages(max_lines, shown, summary):
    stream = io.StringIO()
    passed = []
    view = PlanView(lambda record: passed.append(record.msg), stream, max_lines)
    view.end()
    assert stream.getvalue() == ""  # no plan yet
    fields = {"wildcards": {}, "benchmark": None, "input": [], "reason": "Forced execution"}
    for rule, output in (("a", ["x"]), ("b", ["y"]), ("c", ["z"]), ("target", [])):
        record = {"event": "job_info", "rule_name": rule, "output": output, "msg": rule}
        view.show(logging.makeLogRecord({**record, **fields, "levelno": 20}))
    view.show(logging.makeLogRecord({"event": "run_info", "msg": "table", "levelno": 20}))
    view.show(logging.makeLogRecord({"msg": "read", "levelno": 30}))
    view.end()
    assert (passed, stream.getvalue().splitlines()) == (shown, summary)
