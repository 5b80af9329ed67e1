from __future__ import annotations

import json

import pytest

from vrtspike.errors import RunError
from vrtspike.files import write_json
from vrtspike.runs.publish import merged_timings, publish

WORK = {"flops_per_sample": 1e3, "peak_flops_per_second": 1e9}


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_timings_of_several_starts_have_each_step_once(tmp_path):
    def step(number, ms):
        return {"kind": "step", "step": number, "samples": 2, "frames": 6, "ms": {"step": ms}}

    write(tmp_path / "timing_20260101-000000.jsonl", *(step(n, 1.0) for n in range(1, 6)))
    later = tmp_path / "timing_20260101-000100.jsonl"
    write(later, step(4, 2.0), step(5, 2.0), {"kind": "summary", "steps": 2})
    # One that was killed before its first step was written.
    write(tmp_path / "timing_20260101-000200.jsonl", {"kind": "work", **WORK})
    # A process that was killed leaves a last line that is cut off.
    later.write_text(later.read_text() + '{"kind": "st')
    found = list(merged_timings(tmp_path))
    assert [r.get("step") for r in found] == [1, 2, 3, 4, 5, None]
    assert [r["ms"]["step"] for r in found[:5]] == [1.0, 1.0, 1.0, 2.0, 2.0]
    # The summary is that of the whole run, not of its last start.
    assert found[5]["sections"]["step"]["mean"] == 1.4
    assert found[5]["samples_per_second"] == pytest.approx(10 / 7e-3)
    assert found[5]["flops_per_second"] == pytest.approx(10 / 7e-3 * 1e3)


def test_without_timings_there_are_no_records(tmp_path):
    assert list(merged_timings(tmp_path)) == []


def test_only_finished_runs_are_published(tmp_path):
    write_json(tmp_path / "run" / "run.json", {"status": "interrupted"})
    with pytest.raises(RunError, match="the run is interrupted"):
        publish(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()
