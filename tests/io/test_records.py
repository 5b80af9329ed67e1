"""JSON lines: durability, truncation and damaged lines."""

from __future__ import annotations

import pytest

from vrtspike.io.records import (
    GrowingRecords,
    RecordWriter,
    last_records,
    read_records,
    truncate_records,
)
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


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\nbroken\n{"step": 2}\n')
    with pytest.raises(RunError, match=r"metrics\.jsonl, line 2: not a JSON record"):
        read_records(path)


def test_a_growing_file_gives_each_record_once_and_no_torn_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    growing = GrowingRecords(path)
    assert growing.read() == ([], False)
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert growing.read() == ([{"step": 1}, {"step": 2}], True)
    assert growing.read() == ([], False)
    with path.open("a") as stream:
        stream.write('ep": 3}\n{"step": 4')
    assert growing.read() == ([{"step": 3}], False)
    with path.open("a") as stream:
        stream.write("}\n")
    assert growing.read() == ([{"step": 4}], False)


def test_a_growing_file_that_is_replaced_or_cut_begins_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {step}}}\n' for step in range(1, 5)))
    growing = GrowingRecords(path)
    growing.read()
    truncate_records(path, 2)
    with path.open("a") as stream:
        stream.write('{"step": 3, "longer than before": "................................"}\n')
    records, is_anew = growing.read()
    assert [record["step"] for record in records] == [1, 2, 3]
    assert is_anew
    with path.open("r+") as stream:
        stream.truncate(len('{"step": 1}\n'))
    assert growing.read() == ([{"step": 1}], True)


def test_a_broken_line_of_a_growing_file_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step"\n')
    with pytest.raises(RunError, match=r"metrics\.jsonl, byte 12: not a JSON record"):
        GrowingRecords(path).read()


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
