"""Progress on terminals, in plain output and beside a log."""

from __future__ import annotations

import io
import os
import pty
from types import SimpleNamespace

import pytest

from vrtspike.monitoring import display as module
from vrtspike.monitoring.display import Display, Messages


def test_plain_output_is_complete_and_rate_limited(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    stream = io.StringIO()
    display = Display(stream)
    for step in range(1, 101):
        display.update(f"step {step}/100 | loss 0.1", step / 100)
        # Thirty seconds have passed after twenty steps.
        now += 1.5
    lines = stream.getvalue().splitlines()
    shown = [1, 21, 41, 61, 81, 100]
    assert lines == [f"[train] step {step}/100 | loss 0.1" for step in shown]


def test_notes_are_marked_line_by_line():
    stream = io.StringIO()
    Display(stream).note("one\ntwo")
    assert stream.getvalue() == "[train] one\n[train] two\n"


@pytest.mark.parametrize(
    ("step", "bar"), [(50, "━" * 12 + "╌" * 12 + "  50%"), (100, "━" * 24 + " 100%")]
)
def test_terminal_shows_bar_timings_and_notes(step, bar):
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        display = Display(terminal)
        display.note("validation after step 50: psnr 27.3 [best]")
        display.draw(["┌─ Timing", "└─ Total"], "plain")
        display.update(f"step {step}", step / 100)
        display.close()
        written = b""
        # A terminal hands out what was written in pieces; the last one shows the cursor again.
        while not written.endswith(b"\x1b[?25h"):
            written += os.read(master, 1 << 16)
        shown = written.decode()
    os.close(master)
    for text in ("psnr 27.3 [best]", "└─ Total", bar):
        assert text in shown
    assert "plain" not in shown


def test_with_a_log_the_screen_shows_progress(tmp_path, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    screen, log = io.StringIO(), tmp_path / "train.log"
    log.write_text("before\n")
    display = Display(screen, log)
    display.note("data loading")
    display.show("validation after step 1: psnr 27.3")
    for step in range(1, 14):
        display.update(f"step {step}", step / 100)
        now += 5.0
    display.draw(["block"], "timing line")
    display.note("timing summary")
    display.close()
    steps = [f"[train] step {step}" for step in (1, 7, 13)]
    assert screen.getvalue().splitlines() == ["[train] validation after step 1: psnr 27.3", *steps]
    assert log.read_text().splitlines() == [
        "before", "[train] data loading", "[train] validation after step 1: psnr 27.3",
        *steps, "[train] timing line", "[train] timing summary",
    ]  # fmt: skip


def test_other_processes_show_nothing(tmp_path, capsys):
    display = Display(log=tmp_path / "train.log")
    display.show("important")
    display.update("step 100", 1.0)
    display.draw(["block"], "line")
    display.close()
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().out == ""


def test_with_a_log_only_important_messages_are_on_the_screen(tmp_path, capsys):
    log = tmp_path / "logs" / "train.log"
    messages = Messages(log)
    log.parent.mkdir()
    messages.note("full text")
    messages.show("important")
    assert log.read_text() == "full text\nimportant\n"
    assert capsys.readouterr().out == "important\n"
    messages = Messages()
    messages.note("full text")
    messages.show("important")
    assert capsys.readouterr().out == "full text\nimportant\n"
