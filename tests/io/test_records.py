"""JSON lines: durability, truncation and damaged lines."""

from __future__ import annotations

import pytest

from vrtspike.io.records import RecordWriter, last_records, read_records, truncate_records
from vrtspike.system.errors import RunError


def test_records_are_on_disk_at_once_and_cut_off_lines_are_left_out(tmp_path):
    path = tmp_path / "logs" / "metrics.jsonl"
    records = RecordWriter(path)
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


def test_truncation_removes_records_after_the_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    truncate_records(path, 5)
    assert not path.exists()
    records = RecordWriter(path)
    for step in range(1, 8):
        records.write({"kind": "train", "step": step})
    records.write({"kind": "validation", "step": 5})
    records.close()
    truncate_records(path, 5)
    assert [r["step"] for r in read_records(path)] == [1, 2, 3, 4, 5, 5]


@pytest.mark.parametrize(
    "line", [b"broken", b"\xff\xfe", b"3", b"{\x00}", b'{"step": "\xe9"}', b""]
)
def test_a_broken_line_is_named(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 2}\n')
    with pytest.raises(RunError, match=r"metrics\.jsonl, line 2: not a JSON record"):
        read_records(path)
    with pytest.raises(RunError, match=r"metrics\.jsonl, near its end: not a JSON record"):
        last_records(path, 1000)


def test_last_records_are_the_whole_ones_within_a_size(tmp_path):
    path = tmp_path / "timing.jsonl"
    lines = [f'{{"step": {step}}}\n' for step in range(1, 6)]
    path.write_text("".join(lines) + '{"torn')
    size = len("".join(lines[3:])) + len('{"torn')
    steps = {
        extra: [record["step"] for record in last_records(path, size + extra)]
        for extra in (-1, 0, 1, 10_000)
    }
    assert steps == {-1: [5], 0: [4, 5], 1: [4, 5], 10_000: [1, 2, 3, 4, 5]}
