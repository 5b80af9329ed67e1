"""Lines in one piece."""

from __future__ import annotations

from tests.helpers.streams import PieceRecorder
from vrtspike.system.line_output import write_line


def test_a_line_and_its_end_are_one_piece():
    output = PieceRecorder()
    write_line(output, "two\nlines")
    assert output.pieces == ["two\nlines\n"]
    assert output.flushed == 1


def test_a_closed_output_is_replaced_by_standard_output(monkeypatch):
    output = PieceRecorder()
    monkeypatch.setattr("sys.stdout", output)
    write_line(None, "a line")
    assert output.pieces == ["a line\n"]
    monkeypatch.setattr("sys.stdout", None)
    write_line(None, "lost")
