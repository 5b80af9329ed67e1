"""The time that is left, with a clock that the tests set, and where progress is shown."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import ClassVar

import pytest
import rich.progress  # noqa: F401 - before a test sets the clock, which it copies

import vrtspike.system.progress_bar as module
from vrtspike.system.progress_bar import progress_bar


def test_a_log_file_gets_a_line_now_and_then_with_the_time_left(monkeypatch, capsys):
    # A frame is done at each of these times, of 100; the first is that of the start.
    times = [0.0, 10.0, 20.0, 21.0, 40.0]
    monkeypatch.setattr(time, "monotonic", iter(times).__next__)
    with progress_bar("evaluate") as progress:
        for done in range(1, len(times)):
            progress(done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "evaluate: 2 of 100, 16:20 left",  # 10 s a frame
        "evaluate: 4 of 100, 16:00 left",
    ]


def test_lines_become_rare_in_the_course_of_a_day(monkeypatch, capsys):
    times = [30.0 * number for number in range(2881)]
    monkeypatch.setattr(time, "monotonic", iter(times).__next__)
    with progress_bar("train") as progress:
        for done in range(1, len(times)):
            progress(done, 2880)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "train: 1 of 2880, 23:59:30 left"
    assert 50 < len(lines) < 150


class Output(contextlib.AbstractContextManager):
    """Takes the place of the widget of a cell's output."""

    instances: ClassVar[list[Output]] = []

    def __init__(self) -> None:
        self.instances.append(self)
        self.updates = 0
        self.is_closed = False

    def __exit__(self, *_: object) -> None:
        pass

    def clear_output(self, wait: bool) -> None:
        """Begin another drawing of the bar."""
        self.updates += 1

    def close(self) -> None:
        """Remove the widget from the page."""
        self.is_closed = True


@pytest.mark.parametrize("has_widgets", [True, False])
def test_a_notebook_shows_a_bar_if_it_has_widgets(has_widgets, monkeypatch, capsys):
    widgets = ModuleType("ipywidgets")
    widgets.__spec__ = ModuleSpec("ipywidgets", None)
    widgets.Output = Output
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets if has_widgets else None)
    monkeypatch.setattr(Output, "instances", [])
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(module, "PLAIN_INTERVAL", 0.0)
    monkeypatch.setattr(module, "_PLAIN_SHARE", 0.0)
    with progress_bar("evaluate") as progress:
        progress(1, 2)
    lines = capsys.readouterr().err.splitlines()
    if has_widgets:
        (widget,) = Output.instances
        assert widget.updates > 0
        assert widget.is_closed
        assert lines == []
    else:
        assert Output.instances == []
        assert [line.partition(",")[0] for line in lines] == ["evaluate: 1 of 2"]


PROGRAM = """
import vrtspike.system.progress_bar as module
module.PLAIN_INTERVAL = 0.0
with module.progress_bar("evaluate") as show:
    print("in the log", flush=True)
    for done in (1, 2):
        show(done, 2)
"""


LINES = "evaluate: 1 of 2, 0:00 left\nevaluate: 2 of 2\n"


def shell(command: str, **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PROGRAM": PROGRAM, "PYTHON": sys.executable}
    return subprocess.run(
        ["bash", "-c", command], env=environment, check=True, text=True, timeout=800, **options
    )


def test_progress_goes_to_the_screen_and_messages_to_the_log(tmp_path):
    log = tmp_path / "a.log"
    command = f'VRTSPIKE_SCREEN=3 "$PYTHON" -c "$PROGRAM" 3>&2 > {log} 2>&1'
    assert shell(command, stderr=subprocess.PIPE).stderr == (LINES)
    assert log.read_text() == "in the log\n"
    master, slave = pty.openpty()
    shell(command, stderr=slave)
    os.close(slave)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "2/2" in shown
    assert log.read_text() == "in the log\n"
    # A screen that is not open is standard error.
    closed = shell('VRTSPIKE_SCREEN=3 "$PYTHON" -c "$PROGRAM" 3>&-', stderr=subprocess.PIPE)
    assert closed.stderr == LINES
