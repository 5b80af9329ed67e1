from __future__ import annotations

import pytest

from tests.published_runs import write_lines
from vrtspike.errors import RunError
from vrtspike.monitoring.records import Records, merged_timings, read_records, truncate_records


def test_records_are_on_disk_at_once_and_cut_off_lines_are_left_out(tmp_path):
    path = tmp_path / "logs" / "metrics.jsonl"
    records = Records(path)
    records.write({"step": 1, "loss": float("nan"), "losses": {"a": float("inf"), "b": 0.5}})
    records.write({"step": 2})
    assert read_records(path) == [
        {"step": 1, "loss": None, "losses": {"a": None, "b": 0.5}},
        {"step": 2},
    ]
    records.close()
    with path.open("a") as stream:
        stream.write('{"step": 3, "lo')
    assert [r["step"] for r in read_records(path)] == [1, 2]


def test_truncation_removes_what_lies_beyond_the_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    truncate_records(path, 5)
    assert not path.exists()
    records = Records(path)
    for step in range(1, 8):
        records.write({"kind": "train", "step": step})
    records.write({"kind": "validation", "step": 5})
    records.close()
    truncate_records(path, 5)
    assert [r["step"] for r in read_records(path)] == [1, 2, 3, 4, 5, 5]


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\nbroken\n{"step": 2}\n')
    with pytest.raises(RunError, match=r"metrics\.jsonl, line 2: not a JSON record"):
        read_records(path)


def test_timings_of_several_starts_have_each_step_once(tmp_path):
    assert list(merged_timings(tmp_path.glob("timing_*.jsonl"))) == []

    def step(number, ms):
        return {"kind": "step", "step": number, "samples": 2, "frames": 6, "ms": {"step": ms}}

    write_lines(tmp_path / "timing_20260101-000000.jsonl", (step(n, 1.0) for n in range(1, 6)))
    later = tmp_path / "timing_20260101-000100.jsonl"
    write_lines(later, [step(4, 2.0), step(5, 2.0), {"kind": "summary", "steps": 2}])
    # One that was killed before its first step was written.
    write_lines(tmp_path / "timing_20260101-000200.jsonl", [{"kind": "work"}])
    # A process that was killed leaves a last line that is cut off.
    later.write_text(later.read_text() + '{"kind": "st')
    found = list(merged_timings(tmp_path.glob("timing_*.jsonl")))
    assert [r.get("step") for r in found] == [1, 2, 3, 4, 5]
    assert [r["ms"]["step"] for r in found] == [1.0, 1.0, 1.0, 2.0, 2.0]
